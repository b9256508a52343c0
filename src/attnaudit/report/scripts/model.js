// The mathematics of the playground, without a document: what does the model predict under this attention?
// prediction = activation(tail(offset + Σ_t weights_t · readout_t))
const model = (() => {
  // Base64 of little-endian float32 numbers, as the trace stores them.
  const numbers = (text) => Float64Array.from(new Float32Array(bytesOf(text).buffer));

  function scaledToOne(weights) {
    const total = sum(weights);
    return total > 0 ? weights.map((weight) => weight / total) : weights.slice();
  }

  // An entry of the page as numbers; activation and tail are shared by all.
  function row(entry, { activation, tail }) {
    return {
      own: scaledToOne(numbers(entry.alpha)),
      readout: numbers(entry.readout),
      offset: numbers(entry.offset),
      allowed: entry.allowed,
      sigmoid: activation === "sigmoid",
      tail: tail && { weight: numbers(tail.weight), bias: numbers(tail.bias) },
      listed: entry.tokens.length, // without a last bar that stands for the rest of a long text
    };
  }

  function pooled({ offset, readout }, weights) {
    const width = offset.length;
    return offset.map((start, p) => weights.reduce(
      (total, weight, t) => total + weight * readout[t * width + p], start));
  }

  function logits({ tail }, sums) {
    if (!tail) return sums;
    const raised = sums.map(Math.tanh);
    return tail.bias.map((bias, c) => raised.reduce(
      (total, value, p) => total + tail.weight[c * raised.length + p] * value, bias));
  }

  // As the trace has it: one probability, of class 1, or one for each class.
  function prediction(one, weights) {
    const z = logits(one, pooled(one, weights));
    if (one.sigmoid) return z.map((value) => 1 / (1 + Math.exp(-value)));
    const masked = z.map((value, c) => (one.allowed?.[c] === false ? -Infinity : value));
    const highest = Math.max(...masked);
    return scaledToOne(masked.map((value) => Math.exp(value - highest)));
  }

  // One probability for each class, also of a single sigmoid output.
  const classes = (p) => (p.length === 1 ? [1 - p[0], p[0]] : Array.from(p));

  const decided = (p) => (p.length === 1 ? Number(p[0] >= 0.5) : p.indexOf(Math.max(...p)));

  function tvd(p, q) {
    const gap = sum(p.map((value, c) => Math.abs(value - q[c])));
    return p.length === 1 ? gap : gap / 2;
  }

  // Jensen–Shannon divergence in nats. The tokens of a rest move in proportion: its term is theirs.
  function jsd(p, q) {
    const part = (value, middle) => (value > 0 ? 0.5 * value * Math.log(value / middle) : 0);
    const terms = p.map((value, t) => {
      const middle = (value + q[t]) / 2;
      return part(value, middle) + part(q[t], middle);
    });
    return Math.max(sum(terms), 0);
  }

  // Token t gets `weight`; the others share what is left as they did, or as in the model's own attention
  // if they had nothing.
  function moved(weights, t, weight, own) {
    const value = Math.min(Math.max(weight, 0), 1);
    const others = [weights, own, own.map(() => 1)]
      .map((shares) => shares.map((share, k) => (k === t ? 0 : share)))
      .find((shares) => sum(shares) > 0);
    const scale = (1 - value) / sum(others);
    return others.map((share, k) => (k === t ? value : scale * share));
  }

  function uniform({ own, listed }) {
    const rest = sum(own.slice(listed));
    return own.map((weight, t) => (t < listed ? (1 - rest) / listed : weight));
  }

  function shuffled({ listed }, weights, random) {
    const next = weights.slice();
    for (let k = listed - 1; k > 0; k -= 1) {
      const other = Math.floor(random() * (k + 1));
      [next[k], next[other]] = [next[other], next[k]];
    }
    return next;
  }

  // Null if no weight is left.
  function without(weights, removed) {
    const left = weights.map((weight, t) => (removed.includes(t) ? 0 : weight));
    return sum(left) > 0 ? scaledToOne(left) : null;
  }

  return {
    classes, decided, jsd, moved, numbers, prediction, row, shuffled, tvd, uniform, without,
  };
})();
