// Element-wise loops. Part of vector_kernels.inc.h.

// y[i] (+)= f(i-th vectors of the inputs).
template <typename T, typename S, typename F, typename... In>
ONEFLOW_INLINE void Map(int64_t n, S* y, bool accumulate, F f, const In*... in) {
  if (accumulate) {
    ForVectors<T>(
        n, [&](int64_t i) { Store<T>(y + i, Load<T>(y + i) + f(Load<T>(in + i)...)); },
        [&](int64_t i, int64_t m) {
          StorePart<T>(y + i, LoadPart<T>(y + i, m) + f(LoadPart<T>(in + i, m)...), m);
        });
  } else {
    ForVectors<T>(
        n, [&](int64_t i) { Store<T>(y + i, f(Load<T>(in + i)...)); },
        [&](int64_t i, int64_t m) { StorePart<T>(y + i, f(LoadPart<T>(in + i, m)...), m); });
  }
}

template <typename T, typename From, typename To>
void Convert(const From* x, To* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [](Vec<T> u) { return u; }, x);
}

template <typename T, typename A, typename S>
void Add(const A* a, const S* b, A* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [](Vec<T> u, Vec<T> v) { return u + v; }, a, b);
}

template <typename T, typename S>
void AddBias(const S* x, const T* bias, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [](Vec<T> u, Vec<T> v) { return u + v; }, x, bias);
}

template <typename T, typename S>
void Accumulate(const S* x, T* y, int64_t n) {
  Map<T>(
      n, y, true, [](Vec<T> u) { return u; }, x);
}

template <typename T, typename S>
void Maximum(const S* x, T* y, int64_t n) {
  const T* old = y;
  Map<T>(
      n, y, false, [](Vec<T> u, Vec<T> v) { return Max<T>(u, v); }, x, old);
}

template <typename T, typename From, typename To>
void Multiply(T factor, const From* x, To* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [factor](Vec<T> u) { return u * factor; }, x);
}

template <typename T>
void Scale(T factor, T* y, int64_t n) {
  const T* old = y;
  Map<T>(
      n, y, false, [factor](Vec<T> u) { return u * factor; }, old);
}

template <typename T>
void ExpAll(const T* x, T* y, int64_t n) {
  Map<T>(
      n, y, false, [](Vec<T> u) { return Exp(u); }, x);
}

// The tanh form, as x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the same value, without
// tanh's loss of digits near -1.
template <typename T>
struct GeluParts {
  static constexpr T kTwoU = T(1.5957691216057307117597842397375);  // 2 sqrt(2/pi)
  static constexpr T kCube = T(0.044715);
};

template <typename T>
ONEFLOW_INLINE Vec<T> GeluSigmoid(Vec<T> x) {
  using P = GeluParts<T>;
  return Logistic(x * (x * x * P::kCube + T(1)) * -P::kTwoU);
}

// An activation, and its slope.
template <typename T>
struct Activated {
  Vec<T> value, slope;
};

template <typename T>
struct GeluCurve {
  static ONEFLOW_INLINE Vec<T> Value(Vec<T> x) { return x * GeluSigmoid<T>(x); }
  static ONEFLOW_INLINE Activated<T> WithSlope(Vec<T> x) {
    using P = GeluParts<T>;
    const Vec<T> s = GeluSigmoid<T>(x);
    const Vec<T> inner = (x * x * (T(3) * P::kCube) + T(1)) * P::kTwoU;
    return {x * s, s + x * inner * s * (T(1) - s)};
  }
};

template <typename T>
struct SiluCurve {
  static ONEFLOW_INLINE Vec<T> Value(Vec<T> x) { return x * Logistic(-x); }
  static ONEFLOW_INLINE Activated<T> WithSlope(Vec<T> x) {
    const Vec<T> s = Logistic(-x);
    return {x * s, s + x * s * (T(1) - s)};
  }
};

template <typename T, typename S>
void SoftCap(T cap, const S* x, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [cap](Vec<T> v) { return Tanh(v * (T(1) / cap)) * cap; }, x);
}

template <typename T, typename S>
void SoftCapGrad(T cap, const S* dy, const S* y, S* dx, int64_t n, bool accumulate) {
  Map<T>(
      n, dx, accumulate,
      [cap](Vec<T> d, Vec<T> v) {
        const Vec<T> t = v * (T(1) / cap);
        return d * (T(1) - t * t);
      },
      dy, y);
}

template <typename T, typename S>
void Gelu(const S* x, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [](Vec<T> v) { return GeluCurve<T>::Value(v); }, x);
}

template <typename T, typename S>
void GeluGrad(const S* dy, const S* x, S* dx, int64_t n, bool accumulate) {
  Map<T>(
      n, dx, accumulate, [](Vec<T> d, Vec<T> v) { return d * GeluCurve<T>::WithSlope(v).slope; },
      dy, x);
}

// A gate and what is gated, and the gradients of both.
template <typename T>
struct GateGradients {
  Vec<T> gate, up;
};

template <typename T, template <typename> class A>
struct CurvedGate {
  static ONEFLOW_INLINE Vec<T> Value(Vec<T> gate, Vec<T> up) { return A<T>::Value(gate) * up; }
  static ONEFLOW_INLINE GateGradients<T> Grad(Vec<T> d, Vec<T> gate, Vec<T> up) {
    const Activated<T> a = A<T>::WithSlope(gate);
    return {d * up * a.slope, d * a.value};
  }
};
template <typename T>
using SiluGate = CurvedGate<T, SiluCurve>;
template <typename T>
using GeluGate = CurvedGate<T, GeluCurve>;

// (up + 1) * gate * sigmoid(1.702 gate), of a gate of at most 7 and an up of -7 to 7: gpt-oss.
// At a limit and beyond it there is no gradient, as in torch.clamp.
template <typename T>
struct ClampedSiluGate {
  static constexpr T kLimit = T(7), kAlpha = T(1.702);
  static ONEFLOW_INLINE Vec<T> Least(Vec<T> x) { return Min<T>(Broadcast<T>(kLimit), x); }
  static ONEFLOW_INLINE Vec<T> Clamp(Vec<T> x) { return Max<T>(Broadcast<T>(-kLimit), Least(x)); }
  static ONEFLOW_INLINE Vec<T> Value(Vec<T> gate, Vec<T> up) {
    const Vec<T> g = Least(gate);
    return (Clamp(up) + T(1)) * (g * Logistic(g * -kAlpha));
  }
  static ONEFLOW_INLINE GateGradients<T> Grad(Vec<T> d, Vec<T> gate, Vec<T> up) {
    const Vec<T> g = Least(gate), u = Clamp(up), s = Logistic(g * -kAlpha);
    const Vec<T> slope = s + g * s * (T(1) - s) * kAlpha, none = {};
    const Vec<T> of_gate = d * (u + T(1)) * slope, of_up = d * (g * s);
    return {gate < kLimit ? of_gate : none, (up < kLimit) & (up > -kLimit) ? of_up : none};
  }
};

template <typename T, typename S, template <typename> class A>
void Gated(const S* gate, const S* up, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [](Vec<T> g, Vec<T> u) { return A<T>::Value(g, u); }, gate, up);
}

// Both gradients in one pass.
template <typename T, typename S, template <typename> class A>
void GatedGrad(const S* dy, const S* gate, const S* up, S* dgate, S* dup, int64_t n,
               bool accumulate) {
  auto at = [&](int64_t i, auto load, auto put) {
    const GateGradients<T> grads = A<T>::Grad(load(dy + i), load(gate + i), load(up + i));
    put(dgate + i, grads.gate);
    put(dup + i, grads.up);
  };
  ForVectors<T>(
      n,
      [&](int64_t i) {
        at(
            i, [](const S* p) { return Load<T>(p); },
            [&](S* p, Vec<T> v) { Store<T>(p, accumulate ? Load<T>(p) + v : v); });
      },
      [&](int64_t i, int64_t m) {
        at(
            i, [m](const S* p) { return LoadPart<T>(p, m); },
            [&](S* p, Vec<T> v) { StorePart<T>(p, accumulate ? LoadPart<T>(p, m) + v : v, m); });
      });
}

template <typename T>
double SumSquares(const T* x, int64_t n) {
  // Each f32 square is exact in f64: widen first, then sum in eight fixed lanes.
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) {
      const double v = x[i + j];
      lanes[j] += v * v;
    }
  }
  for (int j = 0; i + j < n; ++j) {
    const double v = x[i + j];
    lanes[j] += v * v;
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

template <typename T>
struct AdamVectors {
  Vec<T> w, m, v;
};

template <typename T>
ONEFLOW_INLINE AdamVectors<T> AdamStep(const AdamNumbers& a, Vec<T> g, AdamVectors<T> s) {
  const T beta1 = T(a.beta1), beta2 = T(a.beta2);
  g = g * T(a.clip_factor);
  s.m = s.m * beta1 + g * T(1.0 - a.beta1);
  s.v = s.v * beta2 + g * g * T(1.0 - a.beta2);
  const Vec<T> step =
      s.m * T(1.0 / a.correction1) / (Sqrt<T>(s.v * T(1.0 / a.correction2)) + T(a.epsilon));
  s.w = s.w - (step + s.w * T(a.decay)) * T(a.learning_rate);
  return s;
}

template <typename T>
void AdamW(const AdamNumbers& numbers, const T* g, T* w, T* m, T* v, int64_t n) {
  const AdamNumbers a = numbers;  // a copy: the stores below cannot alias it
  ForVectors<T>(
      n,
      [&](int64_t i) {
        const auto s =
            AdamStep<T>(a, Load<T>(g + i), {Load<T>(w + i), Load<T>(m + i), Load<T>(v + i)});
        Store<T>(w + i, s.w);
        Store<T>(m + i, s.m);
        Store<T>(v + i, s.v);
      },
      [&](int64_t i, int64_t r) {
        const auto s =
            AdamStep<T>(a, LoadPart<T>(g + i, r),
                        {LoadPart<T>(w + i, r), LoadPart<T>(m + i, r), LoadPart<T>(v + i, r)});
        StorePart<T>(w + i, s.w, r);
        StorePart<T>(m + i, s.m, r);
        StorePart<T>(v + i, s.v, r);
      });
}
