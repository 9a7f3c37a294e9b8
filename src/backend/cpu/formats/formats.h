#pragma once

// Every format that computes (tensor/formats.def).

#include "backend/cpu/formats/floats.h"
#include "backend/cpu/formats/iq4_nl.h"
#include "backend/cpu/formats/iq4_xs.h"
#include "backend/cpu/formats/mxfp4.h"
#include "backend/cpu/formats/q2_k.h"
#include "backend/cpu/formats/q3_k.h"
#include "backend/cpu/formats/q4_0.h"
#include "backend/cpu/formats/q4_1.h"
#include "backend/cpu/formats/q4_k.h"
#include "backend/cpu/formats/q5_0.h"
#include "backend/cpu/formats/q5_1.h"
#include "backend/cpu/formats/q5_k.h"
#include "backend/cpu/formats/q6_k.h"
#include "backend/cpu/formats/q8_0.h"
