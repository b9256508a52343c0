"use strict";
// The mathematics of the playground, in Float64 and without a document: what does the model predict under this attention?
//   prediction = activation(tail(offset + Σ_t weights_t · readout_t))
const playgroundModel = (() => {
  // Base64 of little-endian float32 numbers, as the trace stores them.
  function numbers(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: bytes.length / 4 }, (_, k) => view.getFloat32(4 * k, true));
  }

  function sum(values) {
    let total = 0;
    for (const value of values) total += value;
    return total;
  }

  function scaled(weights) {
    const total = sum(weights);
    return total > 0 ? weights.map((weight) => weight / total) : weights.slice();
  }

  // An entry of the page as numbers; `model` has activation and tail, which all entries share.
  function row(entry, model) {
    const tail = model.tail && { weight: numbers(model.tail.weight), bias: numbers(model.tail.bias) };
    return {
      own: scaled(numbers(entry.alpha)), readout: numbers(entry.readout), offset: numbers(entry.offset), tail,
      sigmoid: model.activation === "sigmoid", allowed: entry.allowed, rest: entry.rest > 0,
    };
  }

  function pooled(one, weights) {
    const width = one.offset.length;
    const total = Float64Array.from(one.offset);
    weights.forEach((weight, t) => {
      if (weight !== 0) for (let p = 0; p < width; p += 1) total[p] += weight * one.readout[t * width + p];
    });
    return total;
  }

  function logits(one, sums) {
    if (!one.tail) return sums;
    const raised = sums.map(Math.tanh);
    return one.tail.bias.map((bias, c) => {
      let total = 0;
      for (let p = 0; p < raised.length; p += 1) total += one.tail.weight[c * raised.length + p] * raised[p];
      return total + bias;
    });
  }

  function activate(one, z) {
    if (one.sigmoid) return z.map((value) => (value >= 0 ? 1 / (1 + Math.exp(-value)) : Math.exp(value) / (1 + Math.exp(value))));
    const masked = z.map((value, c) => (one.allowed && !one.allowed[c] ? -Infinity : value));
    const highest = masked.reduce((a, b) => Math.max(a, b), -Infinity);
    const raised = masked.map((value) => Math.exp(value - highest));
    const total = sum(raised);
    return raised.map((value) => value / total);
  }

  function ofPooled(one, sums) {
    return activate(one, logits(one, sums));
  }

  // As the trace has it: one probability, of class 1, or one for each class.
  function prediction(one, weights) {
    return ofPooled(one, pooled(one, weights));
  }

  // One for each class, also of a single sigmoid output.
  function classes(p) {
    return p.length === 1 ? [1 - p[0], p[0]] : Array.from(p);
  }

  function decided(p) {
    return p.length === 1 ? Number(p[0] >= 0.5) : p.indexOf(p.reduce((a, b) => Math.max(a, b)));
  }

  function tvd(p, q) {
    let gap = 0;
    p.forEach((value, c) => { gap += Math.abs(value - q[c]); });
    return p.length === 1 ? gap : gap / 2;
  }

  // Jensen–Shannon divergence in nats. A last bar that stands for many tokens moves them in proportion: its term is theirs together.
  function jsd(p, q) {
    let total = 0;
    p.forEach((value, t) => {
      const middle = (value + q[t]) / 2;
      if (value > 0) total += 0.5 * value * Math.log(value / middle);
      if (q[t] > 0) total += 0.5 * q[t] * Math.log(q[t] / middle);
    });
    return Math.max(total, 0);
  }

  // Token t gets `weight`; the others keep theirs, or share what is left as they shared before (as the model does, where they had nothing).
  function moved(weights, t, weight, own, keep) {
    const next = weights.slice();
    const value = Math.min(Math.max(weight, 0), 1);
    if (!keep && weights.length > 1) {
      const others = (from) => from.map((w, k) => (k === t ? 0 : w));
      let share = others(weights);
      if (!(sum(share) > 0)) share = others(own);
      if (!(sum(share) > 0)) share = others(own.map(() => 1));
      const total = sum(share);
      share.forEach((w, k) => { next[k] = ((1 - value) * w) / total; });
    }
    next[t] = keep || weights.length > 1 ? value : 1;
    return next;
  }

  // The tokens that are listed one by one: all but a last bar that stands for the rest of a long text.
  function listed(one) {
    return one.own.length - (one.rest ? 1 : 0);
  }

  function uniform(one) {
    const count = listed(one);
    const rest = one.rest ? one.own[count] : 0;
    return one.own.map((weight, t) => (t < count ? (1 - rest) / count : weight));
  }

  function shuffled(one, weights, random) {
    const next = weights.slice();
    for (let k = listed(one) - 1; k > 0; k -= 1) {
      const other = Math.floor(random() * (k + 1));
      [next[k], next[other]] = [next[other], next[k]];
    }
    return next;
  }

  // Null where nothing is left.
  function without(weights, removed) {
    const left = weights.map((weight, t) => (removed.has(t) ? 0 : weight));
    return sum(left) > 0 ? scaled(left) : null;
  }

  function top(one, count) {
    const order = Array.from({ length: listed(one) }, (_, t) => t).sort((a, b) => one.own[b] - one.own[a] || a - b);
    return new Set(order.slice(0, count));
  }

  const STEPS = 20;

  // Attention that gives token t the weight, and the others first what they share of the model's own, then more and more to one of them,
  // until the output is within epsilon; null if it never is.
  function holding(one, t, weight, target, epsilon) {
    const width = one.offset.length;
    const base = moved(one.own, t, weight, one.own, false);
    const at = pooled(one, base);
    for (let step = 0; step <= STEPS; step += 1) {
      const share = step / STEPS;
      for (let j = 0; j < base.length; j += 1) {
        if (j === t) continue;
        const sums = at.map((value, p) => {
          const fixed = one.offset[p] + weight * one.readout[t * width + p];
          return fixed + (1 - share) * (value - fixed) + share * (1 - weight) * one.readout[j * width + p];
        });
        if (tvd(ofPooled(one, sums), target) <= epsilon) {
          return base.map((value, k) => (k === t ? weight : (1 - share) * value + (k === j ? share * (1 - weight) : 0)));
        }
        if (step === 0) break; // nothing has been given to j yet
      }
    }
    return null;
  }

  // The attention nearest to a weight of token t, its least or most, whose output is within epsilon: at the weight itself where it is found.
  function extreme(one, t, weight, epsilon) {
    const target = prediction(one, one.own);
    const room = epsilon + 1e-7; // the weight is itself rounded
    let found = holding(one, t, weight, target, room);
    if (found) return found;
    let [inside, outside] = [one.own[t], weight];
    for (let halving = 0; halving < 24; halving += 1) {
      const middle = (inside + outside) / 2;
      const next = holding(one, t, middle, target, room);
      if (next) [inside, found] = [middle, next];
      else outside = middle;
    }
    return found || one.own.slice();
  }

  function toText(weights) {
    const bytes = new Uint8Array(4 * weights.length);
    const view = new DataView(bytes.buffer);
    weights.forEach((weight, t) => view.setFloat32(4 * t, weight, true));
    return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  }

  // What `toText` wrote; null for anything else.
  function fromText(text, length) {
    if (!/^[\w-]*$/.test(text)) return null;
    let found;
    try {
      found = numbers(text.replace(/-/g, "+").replace(/_/g, "/"));
    } catch {
      return null;
    }
    return found.length === length && found.every((w) => Number.isFinite(w) && w >= 0 && w <= 1) ? found : null;
  }

  return { classes, decided, extreme, fromText, jsd, listed, moved, numbers, prediction, row, shuffled, sum, toText, top, tvd, uniform, without };
})();
