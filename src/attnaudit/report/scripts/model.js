// The mathematics of the playground, without a document: what does the model predict under this
// attention?  prediction = activation(tail(offset + Σ_t weights_t · readout_t))
const model = (() => {
  // Base64 of little-endian float32 numbers, as the trace stores them.
  function numbers(text) {
    const view = new DataView(bytesOf(text).buffer), length = view.byteLength / 4;
    return Float64Array.from({ length }, (_, k) => view.getFloat32(4 * k, true));
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function scaledToOne(weights) {
    const total = sum(weights);
    return total > 0 ? weights.map((weight) => weight / total) : weights.slice();
  }

  // An entry of the page as numbers; activation and tail are shared by all.
  function row(entry, { activation, tail }) {
    return {
      own: scaledToOne(numbers(entry.alpha)), readout: numbers(entry.readout),
      offset: numbers(entry.offset), allowed: entry.allowed, sigmoid: activation === "sigmoid",
      tail: tail && { weight: numbers(tail.weight), bias: numbers(tail.bias) },
      listed: entry.tokens.length, // without a last bar that stands for the rest of a long text
    };
  }

  function pooled({ offset, readout }, weights) {
    const total = Float64Array.from(offset), width = offset.length;
    weights.forEach((weight, t) => {
      for (let p = 0; weight !== 0 && p < width; p += 1) total[p] += weight * readout[t * width
        + p];
    });
    return total;
  }

  function logits({ tail }, sums) {
    if (!tail) return sums;
    const raised = sums.map(Math.tanh);
    return tail.bias.map((bias, c) => {
      let total = bias;
      raised.forEach((value, p) => { total += tail.weight[c * raised.length + p] * value; });
      return total;
    });
  }

  function activate({ sigmoid, allowed }, z) {
    if (sigmoid) return z.map((value) => 1 / (1 + Math.exp(-value)));
    const masked = z.map((value, c) => (allowed && !allowed[c] ? -Infinity : value));
    const highest = Math.max(...masked);
    return scaledToOne(masked.map((value) => Math.exp(value - highest)));
  }

  const outputOf = (one, sums) => activate(one, logits(one, sums));

  // As the trace has it: one probability, of class 1, or one for each class.
  const prediction = (one, weights) => outputOf(one, pooled(one, weights));

  // One for each class, also of a single sigmoid output.
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

  // Token t gets `weight`; the others share what is left as they did, or as in the model's own
  // attention if they had nothing.
  function moved(weights, t, weight, own) {
    const value = weights.length === 1 ? 1 : Math.min(Math.max(weight, 0), 1);
    const others = (from) => from.map((share, k) => (k === t ? 0 : share));
    const share = [weights, own, own.map(() => 1)].map(others).find((one) => sum(one) > 0)
      ?? weights;
    const total = sum(share);
    return weights.map((_, k) => (k === t ? value : ((1 - value) * share[k]) / total));
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

  // Null where no weight is left.
  function without(weights, removed) {
    const left = weights.map((weight, t) => (removed.has(t) ? 0 : weight));
    return sum(left) > 0 ? scaledToOne(left) : null;
  }

  // ∂ log-odds of the decided class / ∂ weights, of which only the order counts.
  function slope(one) {
    const sums = pooled(one, one.own), z = logits(one, sums), y = decided(activate(one, z));
    const allowed = Array.from(z, (_, c) => c !== y && (!one.allowed || one.allowed[c]));
    const part = one.sigmoid ? [y ? 1 : -1]
      : activate({ allowed }, z).map((rival, c) => (c === y ? 1 : -rival || 0));
    const through = (p) => (one.tail ? (1 - Math.tanh(sums[p]) ** 2)
      * sum(part.map((share, c) => share * one.tail.weight[c * sums.length + p])) : part[p]);
    const weight = sums.map((_, p) => through(p));
    const of = (t) => sum(weight.map((share, p) => share * one.readout[t * sums.length + p]));
    return times(one.listed, (t) => of(t));
  }

  // The listed tokens in the order in which a ranking removes them.
  function removals(one, ranking, smallest) {
    const own = Array.from(one.own.slice(0, one.listed));
    const score = { gradient: () => slope(one),
      product: () => slope(one).map((g, t) => g * own[t]) };
    const by = (score[ranking] ?? (() => own))();
    const order = by.map((_, t) => t).sort((a, b) => by[b] - by[a] || a - b);
    if (ranking !== "minimum") return order;
    return [...smallest, ...order.filter((t) => !smallest.includes(t))];
  }

  function toText(weights) {
    const view = new DataView(new ArrayBuffer(4 * weights.length));
    weights.forEach((weight, t) => view.setFloat32(4 * t, weight, true));
    const letters = btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
    return letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  // The weights that `toText` wrote; null for anything else.
  function fromText(text, length) {
    const letters = text.replaceAll("-", "+").replaceAll("_", "/");
    if (!/^[\w-]*$/.test(text) || letters.length !== Math.ceil((16 * length) / 3)) return null;
    const found = numbers(letters);
    return found.every((weight) => weight >= 0 && weight <= 1) ? found : null;
  }

  return {
    classes, decided, fromText, jsd, moved, numbers, prediction, removals, row, shuffled, sum,
      toText, tvd,
    uniform, without,
  };
})();
