/* Intervals of paired means: the percentile bootstrap of attnaudit compare (stats/paired.py), draw for draw. Resample b counts how often
   draw k of its stream, splitmix64 at position k, hits each text; keys and tails of percentiles come with the data. */
const PORTION = 20; // ms of work at a time, so that the page answers

// The high word of the product of two words.
function high(a, b) {
  const a0 = a & 0xffff, a1 = a >>> 16, b0 = b & 0xffff, b1 = b >>> 16;
  const low = Math.imul(a0, b0) >>> 0;
  const first = (Math.imul(a1, b0) + (low >>> 16)) >>> 0;
  const second = (Math.imul(a0, b1) + (first & 0xffff)) >>> 0;
  return (Math.imul(a1, b1) + (first >>> 16) + (second >>> 16)) >>> 0;
}

// How often each of `count.length` texts is drawn in as many draws of the stream with the key (low, top).
function resample(low, top, count) {
  const size = count.length;
  count.fill(0);
  let l = low, h = top;
  for (let draw = 0; draw < size; draw += 1) {
    const before = l;
    l = (l + 0x7f4a7c15) >>> 0;
    h = (h + 0x9e3779b9 + (l < before ? 1 : 0)) >>> 0;
    const xl = (l ^ ((l >>> 30) | (h << 2))) >>> 0, xh = (h ^ (h >>> 30)) >>> 0;
    const yl0 = Math.imul(xl, 0x1ce4e5b9) >>> 0;
    const yh0 = (high(xl, 0x1ce4e5b9) + Math.imul(xl, 0xbf58476d) + Math.imul(xh, 0x1ce4e5b9)) >>> 0;
    const yl = (yl0 ^ ((yl0 >>> 27) | (yh0 << 5))) >>> 0, yh = (yh0 ^ (yh0 >>> 27)) >>> 0;
    const z = (high(yl, 0x133111eb) + Math.imul(yl, 0x94d049bb) + Math.imul(yh, 0x133111eb)) >>> 0;
    count[high((z ^ (z >>> 31)) >>> 0, size)] += 1;
  }
}

// Sums and numbers of the differences of a measure by text; `known` is null where every text has the same number.
function summed(first, second, text, texts) {
  const total = new Float64Array(texts), known = new Float64Array(texts);
  for (let k = 0; k < text.length; k += 1) {
    const gap = second[k] - first[k];
    if (Number.isNaN(gap)) continue;
    total[text[k]] += gap;
    known[text[k]] += 1;
  }
  return { total, known, drawn: known.reduce((sum, one) => sum + (one > 0), 0) };
}

function meanOf({ total, known }, count) {
  let sum = 0, n = 0;
  for (let k = 0; k < count.length; k += 1) {
    sum += count[k] * total[k];
    n += count[k] * known[k];
  }
  return n > 0 ? sum / n : NaN;
}

function percentile(sorted, share) {
  const at = share * (sorted.length - 1), below = Math.floor(at);
  const value = sorted[below];
  return below + 1 < sorted.length ? value + (sorted[below + 1] - value) * (at - below) : value;
}

// The share of resamples below an interval of so many texts: `tails` begin with `first` texts; beyond them it is linear in 1/n.
function tailOf(drawn, { tails, first }) {
  const last = first + tails.length - 1;
  return drawn <= last ? tails[drawn - first] : 0.025 + ((tails[tails.length - 1] - 0.025) * last) / drawn;
}

/* Low and high of each of `sums`, as [low, high], NaN of fewer than `first` texts; null once `needed()` is false.
   `keys` are pairs of words, low first; `progress` is called with a share. */
async function intervals(sums, texts, drawing, needed, progress) {
  const { keys } = drawing, resamples = keys.length / 2;
  const means = sums.map(() => new Float64Array(resamples)), count = new Uint16Array(texts);
  const judged = sums.map((one, k) => [one, k]).filter(([one]) => one.drawn >= drawing.first);
  let until = performance.now() + PORTION;
  for (let b = 0; judged.length && b < resamples; b += 1) {
    resample(keys[2 * b], keys[2 * b + 1], count);
    for (const [one, k] of judged) {
      means[k][b] = meanOf(one, count);
      if (performance.now() < until) continue;
      progress(b / resamples);
      await new Promise((resume) => { window.setTimeout(resume); });
      if (!needed()) return null;
      until = performance.now() + PORTION;
    }
  }
  return sums.map((one, k) => {
    if (one.drawn < drawing.first) return [NaN, NaN];
    const sorted = means[k].filter((value) => !Number.isNaN(value)).sort(), tail = tailOf(one.drawn, drawing);
    return [percentile(sorted, tail), percentile(sorted, 1 - tail)];
  });
}
