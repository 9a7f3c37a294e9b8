// Templates are programs from outside: whatever they try, a render ends soon, small and cleanly (FAULTS B6, B7, B9).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <csignal>
#include <cstddef>
#include <ctime>

#include <functional>
#include <limits>

#include "chat/chat_template.h"
#include "chat/vectors.h"
#include "sanitized.h"

namespace martlet {
namespace {

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// The error code of parsing and rendering `source`, or "" when it renders.
std::string outcome(std::string_view source, const boost::json::object& inputs = {},
                    const TemplateLimits& limits = {}) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error().code;
  const auto rendered = (*parsed)->render(inputs, vector_time(), limits);
  return rendered ? "" : rendered.error().code;
}

// Runs on a thread with 512 KiB of stack, as the smallest of the program's threads have.
void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  pthread_t thread;
  const auto run = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// What this thread has worked, whatever else the machine does.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Sanitizers take their time.
constexpr double kMostSeconds = MARTLET_ADDRESS_SANITIZER || MARTLET_THREAD_SANITIZER ? 2.0 : 0.25;

class B6_Limit : public testing::TestWithParam<const char*> {};

TEST_P(B6_Limit, EndsSoonAndSmall) {
  on_small_stack([] {
    const double start = thread_seconds();
    const auto parsed = ChatTemplate::parse(GetParam());  // when a model is loaded
    ASSERT_TRUE(parsed) << GetParam();
    const double loaded = thread_seconds();
    const auto rendered = (*parsed)->render({}, vector_time());
    ASSERT_FALSE(rendered) << GetParam();
    EXPECT_EQ(rendered.error().code, "template_limit") << GetParam();
    EXPECT_LT(loaded - start, kMostSeconds) << GetParam();
    EXPECT_LT(thread_seconds() - loaded, kMostSeconds) << GetParam();
  });
}

INSTANTIATE_TEST_SUITE_P(
    JinjaFaults, B6_Limit,
    testing::Values(
        "{{ range(10 ** 9) | list }}", "{{ range(10 ** 18) }}", "{{ 'a' * 10 ** 9 }}", "{{ [0] * 10 ** 9 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(x) %}{% call m(x) %}{{ caller() }}{% endcall %}{% endmacro %}{{ m(1) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "{{ 'x'.center(10 ** 12) }}",
        "{{ 'x'|center(10 ** 9) }}", "{{ '{:>1000000000}'.format(1) }}", "{{ '%1000000000d' % 1 }}",
        "{{ '%.100000000f' % 1.5 }}", "{{ '{:.100000000f}'.format(1.5) }}", "{{ 'x'.ljust(10 ** 10) }}",
        "{{ '5'.zfill(10 ** 10) }}", "{{ 'a\tb'.expandtabs(10 ** 10) }}", "{{ 'x'|indent(10 ** 10, true) }}",
        "{{ [1]|tojson(indent=10 ** 10) }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s.join([ns.s, ns.s, ns.s]) %}{% "
        "endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == "
        "ns.x[:] }}"
        "{{ ns.x|tojson }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [ns.x].index %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = cycler(ns.x) %}{% endfor %}",
        "{% set ns = namespace(a=1) %}{% set ns.b = ns %}{{ ns }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'some text that is longer than most, to fill the output up to its limit "
        "quickly' * 9 }}{% endfor %}",
        "{% for a in range(99999) %}{% set ns = namespace(x='a' * 9999 ~ a) %}{% endfor %}",
        "{% set s = 'ab' * 2000000 %}{% for a in range(999) %}{% set x = s.count('aa') %}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{% for a in range(9999) %}{% set x = s.rfind('a' * 500000 ~ 'b') %}{% endfor %}",
        "{{ ('x' * 3000000)|list }}", "{{ 2 ** 63 }}", "{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775807 * 9 }}",
        "{{ 1e300|int }}", "{{ '99999999999999999999'|int }}"));

TEST(JinjaFaults, B6_DeepTemplatesAreRefused) {
  on_small_stack([] {
    for (const std::string& source :
         {"{{ " + repeated("(", 60'000) + "1" + repeated(")", 60'000) + " }}", "{{ " + repeated("[", 60'000),
          "{{ " + repeated("{1:", 60'000), repeated("{% if 1 %}", 100'000), repeated("{% for x in y %}", 60'000),
          "{{ " + repeated("not ", 60'000) + "1 }}", "{{ " + repeated("-", 60'000) + "1 }}",
          "{{ " + repeated("1 if 1 else ", 60'000) + "1 }}", "{{ " + repeated("a(", 60'000),
          "{{ " + repeated("a[", 60'000), "{% set " + repeated("(", 60'000) + "a",
          "{{ x is " + repeated("x is ", 60'000), "{{ 1|" + repeated("default(1|", 60'000),
          "{{ " + repeated("2**", 60'000) + "("}) {
      EXPECT_EQ(outcome(source), "template_unsupported") << source.substr(0, 40);
    }
  });
}

// Chains are not nesting: they may be as long as the template.
TEST(JinjaFaults, B6_LongChainsAreFine) {
  on_small_stack([] {
    const auto rendered = [](const std::string& source) { return outcome(source, {}, patient()); };
    EXPECT_EQ(rendered("{{ 1" + repeated(" + 1", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{{ 'a'" + repeated(" ~ 'a'", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{{ 'a'" + repeated("|trim", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{{ 'a'" + repeated(".strip()", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{{ 1" + repeated(" == 1", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{{ 1" + repeated(" and 1", 20'000) + " }}"), "");
    EXPECT_EQ(rendered("{% if 0 %}" + repeated("{% elif 0 %}", 20'000) + "{% endif %}"), "");
  });
}

TEST(JinjaFaults, B6_SourceIsBounded) {
  EXPECT_EQ(outcome(std::string((1 << 20) + 1, 'a')), "template_unsupported");
  EXPECT_EQ(outcome(std::string(1 << 20, 'a')), "");
  EXPECT_EQ(outcome(repeated("{{1}}", 200'000)), "template_unsupported");
}

constexpr const char* kWaysOut[] = {"{{ ''.__class__.__mro__[1].__subclasses__() }}",
                                    "{{ [].__class__ }}",
                                    "{{ ()['__class__']['__base__'] }}",
                                    "{{ {}|attr('__class__') }}",
                                    "{{ range.__globals__ }}",
                                    "{{ namespace.__init__.__globals__['os'] }}",
                                    "{{ '{0.__class__}'.format(1) }}",
                                    "{{ '{0.__class__.__mro__}'.format('') }}",
                                    "{{ cycler.__init__.__globals__ }}",
                                    "{{ self.__init__ }}{{ self._TemplateReference__context }}",
                                    "{{ lipsum.__globals__ }}",
                                    "{{ ''['__class__'] }}",
                                    "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
                                    "{{ joiner().__init__ }}",
                                    "{{ messages.append(1) }}",
                                    "{{ {}.update({}) }}",
                                    "{{ [].pop() }}",
                                    "{{ [1]|map(attribute='__class__')|list }}"};
constexpr const char* kOtherFiles[] = {"{% include '/etc/passwd' %}", "{% import 'os' as os %}",
                                       "{% from 'os' import system %}", "{% extends 'base' %}"};

TEST(JinjaFaults, B7_NoWayToTheInterpreter) {
  for (const char* source : kWaysOut) EXPECT_EQ(outcome(source, {{"messages", {1}}}), "template_error") << source;
  for (const char* source : kOtherFiles) EXPECT_EQ(outcome(source), "template_unsupported") << source;
}

#ifdef __linux__
// From here on, this process dies of opening a file, of starting a program and of making a socket.
bool die_of_system_calls() {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const uint32_t call : {
#ifdef __NR_open
           __NR_open,
#endif
           __NR_openat, __NR_execve, __NR_execveat, __NR_socket}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The exit status of a process in which `body` runs so; 77 where the system has no such filter.
int status_without_system_calls(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!die_of_system_calls()) ::_exit(77);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(JinjaFaults, B7_NothingIsOpenedOrStarted) {
  const int planted = status_without_system_calls([] { ::close(::open("/dev/null", O_RDONLY)); });
  if (planted == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(planted, -SIGSYS) << "it would be seen";
  EXPECT_EQ(status_without_system_calls([] {
              for (const char* source : kWaysOut) (void)outcome(source, {{"messages", {1}}});
              for (const char* source : kOtherFiles) (void)outcome(source);
            }),
            0);
}
#endif

TEST(JinjaFaults, B9_ErrorsSayWhere) {
  const auto parsed = ChatTemplate::parse("line one\n  {% if %}");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().where, "template:2:9");
  const auto chat_template = ChatTemplate::parse("a\n\n{{ x.y.z }}");
  ASSERT_TRUE(chat_template);
  const auto rendered = (*chat_template)->render({{"x", boost::json::object()}}, vector_time());
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().where, "template:3:8");
  EXPECT_EQ(rendered.error().text, "'y' is undefined");
}

TEST(JinjaFaults, ErrorsHoldNoInput) {
  const auto chat_template = ChatTemplate::parse("{{ raise_exception('bad role: ' ~ role ~ '!') }}");
  ASSERT_TRUE(chat_template);
  const auto rendered = (*chat_template)->render({{"role", "secret"}}, vector_time());
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().text, "the template refuses the conversation: bad role: ...!");
}

// A long message passes through the string functions in linear time.
TEST(JinjaSpeed, LongTextIsLinear) {
  const auto chat_template = ChatTemplate::parse(
      "{{ x.strip()|replace('ab', 'ba')|trim }}{{ x.split('\\n')|length }}{{ x.rsplit('b', 1)[0]|length }}"
      "{{ '</think>' in x }}{{ x[1:]|length }}");
  ASSERT_TRUE(chat_template);
  const auto took = [&](size_t size) {
    const boost::json::object inputs = {{"x", repeated("abab \n", size / 6)}};
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < 3; ++i) {
      const double start = thread_seconds();
      EXPECT_TRUE((*chat_template)->render(inputs, vector_time(), {.time = std::chrono::seconds(20)}));
      best = std::min(best, thread_seconds() - start);
    }
    return best;
  };
  const double half = took(256 << 10), whole = took(512 << 10);
  EXPECT_LT(whole, 4 * half) << half << " s for 256 KiB, " << whole << " s for 512 KiB";
}

}  // namespace
}  // namespace martlet
