#pragma once

#include <vector>

#include "chat/prompt.h"

namespace martlet {

// A rendered chat as token ids, ready for the engine: control tokens only where the template itself wrote them, the BOS
// token first where the model wants one and the template did not write it. Errors: those of render_chat.
Result<std::vector<Token>> encode_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                       const boost::json::object& inputs);

}  // namespace martlet
