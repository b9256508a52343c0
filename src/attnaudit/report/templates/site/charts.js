// Charts of the rows: a histogram and a plane of two measures. A brush gives a range; the fields below the histogram take the same by keyboard.
const WIDE = 220, HIGH = 76, BARS = 40, BINS = 10;

// The smallest and the largest of values; NaN is undefined. Each array is read once.
const ENDS = new WeakMap();
function endsOf(values) {
  if (!ENDS.has(values)) {
    let low = Infinity, high = -Infinity;
    for (let row = 0; row < values.length; row += 1) {
      if (values[row] < low) low = values[row];
      if (values[row] > high) high = values[row];
    }
    ENDS.set(values, [low, high]);
  }
  return ENDS.get(values);
}

// Which of `bins` equal intervals between its ends each value is in; 255 where it is undefined.
function binned(values, bins) {
  const [low, high] = endsOf(values), scale = high > low ? bins / (high - low) : 0, found = new Uint8Array(values.length);
  for (let row = 0; row < values.length; row += 1) {
    found[row] = values[row] === values[row] ? Math.min((values[row] - low) * scale, bins - 1) : 255;
  }
  return found;
}

// Whether values are of one or two kinds, as shares of yes and no are.
function isBinary(values) {
  const [low, high] = endsOf(values);
  for (let row = 0; row < values.length; row += 1) if (values[row] > low && values[row] < high) return false;
  return low < high;
}

// Digits of a column: none where all values are whole, to the steps in which they were kept.
const DECIMALS = new WeakMap();
function decimalsOf(values) {
  if (!DECIMALS.has(values)) {
    const [low, high] = endsOf(values), slack = (high - low) / 60000;
    DECIMALS.set(values, values.every((value) => value !== value || Math.abs(value - Math.round(value)) <= slack) ? 0 : 3);
  }
  return DECIMALS.get(values);
}

const digitsOf = (low, high) => (high - low < 0.05 ? 4 : 2);

// A closed table of numbers, made again by `lines()` while it is open: [heads, ...rows of text].
function numbersBehind(title, lines) {
  const made = element("details", "behind"), table = element("table");
  made.append(element("summary", "", "Numbers"), table);
  const draw = () => {
    if (!made.open) return;
    const [heads, ...rows] = lines(), head = element("thead"), top = element("tr"), body = element("tbody");
    top.append(...heads.map((text) => Object.assign(element("th", "", text), { scope: "col" })));
    head.append(top);
    for (const row of rows) {
      const line = element("tr");
      line.append(...row.map((text, k) => (k ? element("td", "num", text) : Object.assign(element("th", "", text), { scope: "row" }))));
      body.append(line);
    }
    table.replaceChildren(element("caption", "unseen", title), head, body);
  };
  made.addEventListener("toggle", draw);
  return { box: made, draw };
}

// A histogram of `values`; `change(range)` is called with [from, to], or null where all are meant.
function histogram(title, values, change) {
  const [low, high] = endsOf(values), known = low <= high, width = high - low || 1, two = isBinary(values);
  const bars = two ? 2 : high > low ? BARS : 1;
  const bin = binned(values, bars);
  const chart = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH + 16}`, class: "brushed", "aria-hidden": "true" });
  const all = drawn("path", { class: "of-all" });
  const fit = drawn("path", { class: "of-fit" });
  const brush = drawn("rect", { class: "brush", y: 0, height: HIGH, width: 0 });
  const axis = drawn("line", { class: "axis", x1: 0, x2: WIDE, y1: HIGH, y2: HIGH });
  const digits = digitsOf(low, low + width);
  const ends = !known ? [] : high > low ? [[0, "start", low], [WIDE / 2, "middle", low + width / 2], [WIDE, "end", high]] : [[WIDE / 2, "middle", low]];
  chart.append(all, fit, brush, axis, ...ends.map(([x, anchor, value]) =>
    drawn("text", { x, y: HIGH + 13, "text-anchor": anchor }, figure(value, digits))));
  const from = number("from"), to = number("to");
  const box = element("fieldset", "chart-box");
  const count = element("span", "muted");
  const fields = element("div", "range-fields");
  fields.append(labelled("from", from), labelled("to", to), count);
  const legend = element("legend");
  legend.append(element("span", "chart-title", title));
  const total = new Uint32Array(256);
  for (let row = 0; row < bin.length; row += 1) total[bin[row]] += 1;
  let fitting = total;
  const numbers = numbersBehind(`${title}: number of rows by value`, binnedRows);
  box.append(legend, chart, fields, numbers.box);
  draw();

  function number(name) {
    const field = element("input");
    Object.assign(field, { type: "number", name, step: "any" });
    field.addEventListener("change", () => change(from.value === "" && to.value === "" ? null : [
      from.value === "" ? -Infinity : Number(from.value), to.value === "" ? Infinity : Number(to.value)]));
    return field;
  }

  // Both as shares of their own rows, so that few rows that fit are visible among many.
  function draw() {
    const shares = [total, fitting].map((one) => {
      const found = Array.from(one.subarray(0, bars)), sum = found.reduce((a, b) => a + b, 0) || 1;
      return found.map((rows) => rows / sum);
    });
    const scale = Math.max(...shares[0], ...shares[1]) || 1;
    all.setAttribute("d", outline(shares[0], scale));
    fit.setAttribute("d", outline(shares[1], scale));
    numbers.draw();
  }

  function outline(found, scale) {
    const step = WIDE / bars;
    let path = "";
    for (let k = 0; k < bars; k += 1) {
      const tall = Math.max((found[k] / scale) * (HIGH - 2), 1).toFixed(1);
      if (found[k]) path += `M${(k * step + 0.4).toFixed(1)} ${HIGH}v-${tall}h${(step - 0.8).toFixed(1)}v${tall}z`;
    }
    return path;
  }

  function binnedRows() {
    const rows = Math.min(bars, BINS), each = bars / rows, end = (k) => figure(low + (width * k) / rows, digits);
    const sum = (one, k) => thousands(one.subarray(k * each, (k + 1) * each).reduce((a, b) => a + b, 0));
    const name = (k) => (bars === 1 ? figure(low, digits) : two ? figure(k ? high : low, digits) : `${end(k)} to ${end(k + 1)}`);
    return [["value", "all rows", "rows that fit"], ...(known ? Array.from({ length: rows }, (_, k) => [name(k), sum(total, k), sum(fitting, k)]) : []),
      ...(total[255] ? [["undefined", thousands(total[255]), thousands(fitting[255])]] : [])];
  }

  const brushed = (a, b) => {
    const [x1, x2] = [a.x, b.x].map((x) => Math.min(Math.max(x, 0), 1)).sort((one, other) => one - other);
    change(x2 - x1 < 0.01 ? null : [Number((low + x1 * width).toPrecision(4)), Number((low + x2 * width).toPrecision(4))]);
  };
  dragged(chart, brushed, brushed);

  return {
    box, legend,
    // `failed` has bits of the filters that a row does not pass, `others` those of all filters but this chart's own.
    update(failed, others, range) {
      fitting = new Uint32Array(256);
      for (let row = 0; row < bin.length; row += 1) if ((failed[row] & others) === 0) fitting[bin[row]] += 1;
      draw();
      const [start, end] = range || [low, low];
      const place = (value) => (known ? Math.min(Math.max((value - low) / width, 0), 1) * WIDE : 0);
      brush.setAttribute("x", place(start));
      brush.setAttribute("width", Math.max(place(end) - place(start), 0));
      from.value = range && Number.isFinite(range[0]) ? range[0] : "";
      to.value = range && Number.isFinite(range[1]) ? range[1] : "";
      from.placeholder = known ? figure(low, digits) : "";
      to.placeholder = known ? figure(high, digits) : "";
      count.textContent = total[255] ? `${thousands(total[255])} undefined` : "";
    },
  };
}

// Red, green and blue of a colour of the page as it is now: a canvas does not know variables.
function colour(name) {
  const probe = document.getElementById("site-error");
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.style.color = "";
  return found.match(/[\d.]+/g).slice(0, 3).map(Number);
}

const OPACITY = { grey: 0.5, blue: 0.45 }, MOST = 16; // of one point, and the points over each other that are distinguished

// The colour of a pixel by the number of blue and of grey points over it, as the four bytes of a picture.
function paletteOf({ paper, line, accent }) {
  const bytes = new Uint8ClampedArray(4 * (MOST + 1) ** 2), left = (one, times) => (1 - one) ** times;
  for (let k = 0; k < (MOST + 1) ** 2; k += 1) {
    const [under, over] = [left(OPACITY.grey, k % (MOST + 1)), left(OPACITY.blue, Math.floor(k / (MOST + 1)))];
    const mixed = paper.map((one, c) => (one * under + line[c] * (1 - under)) * over + accent[c] * (1 - over));
    bytes.set([...mixed, 255], 4 * k);
  }
  return new Uint32Array(bytes.buffer);
}

// A point for each row of two measures; `change` is called with the ranges of both, `open` with the row of a click.
function plane(change, open) {
  const size = { width: 460, height: 320, left: 44, bottom: 34 };
  const canvas = element("canvas", "plane");
  canvas.setAttribute("role", "img");
  let points = { x: new Float64Array(), y: new Float64Array() }, names = ["", ""], span = [0, 1, 0, 1], mask = [new Uint32Array(), 0];
  let placed = { x: null, y: null, ratio: 0, at: new Int32Array() }, inks = null, palette = null;
  const numbers = numbersBehind("The second measure by intervals of the first, of the rows that fit", () => byIntervals(points, names, mask));

  const ends = (values) => {
    const [low, high] = endsOf(values);
    return low <= high ? [low, high === low ? low + 1 : high] : [0, 1];
  };
  const across = (value) => size.left + ((value - span[0]) / (span[1] - span[0])) * (size.width - size.left - 8);
  const up = (value) => size.height - size.bottom - ((value - span[2]) / (span[3] - span[2])) * (size.height - size.bottom - 8);
  const inner = ({ x, y }) => [
    span[0] + ((x * size.width - size.left) / (size.width - size.left - 8)) * (span[1] - span[0]),
    span[2] + ((size.height - size.bottom - y * size.height) / (size.height - size.bottom - 8)) * (span[3] - span[2]),
  ];

  // The pixel of the upper left corner of each row's point; −1 where a measure is undefined.
  function pixels(ratio, side) {
    const { x, y } = points;
    if (placed.x !== x || placed.y !== y || placed.ratio !== ratio) {
      const at = new Int32Array(x.length), wide = Math.round(size.width * ratio);
      for (let row = 0; row < at.length; row += 1) {
        at[row] = x[row] === x[row] && y[row] === y[row]
          ? Math.round(up(y[row]) * ratio - side / 2) * wide + Math.round(across(x[row]) * ratio - side / 2) : -1;
      }
      placed = { x, y, ratio, at };
    }
    return placed.at;
  }

  // Points as one picture: how many lie over each pixel decides its opacity. 25,000 rectangles would take most of the time of a brush.
  function picture(pen, ratio) {
    const wide = canvas.width, image = pen.createImageData(wide, canvas.height), side = Math.round(3 * ratio);
    const at = pixels(ratio, side), grey = new Uint8Array(wide * canvas.height), blue = new Uint8Array(wide * canvas.height), [failed, others] = mask;
    for (let row = 0; row < at.length; row += 1) {
      if (at[row] < 0) continue;
      const layer = (failed[row] & others) === 0 ? blue : grey;
      for (let i = 0; i < side; i += 1) {
        const start = at[row] + i * wide;
        for (let k = start; k < start + side; k += 1) if (layer[k] < MOST) layer[k] += 1;
      }
    }
    const data = new Uint32Array(image.data.buffer);
    for (let k = 0; k < data.length; k += 1) data[k] = palette[blue[k] * (MOST + 1) + grey[k]];
    pen.putImageData(image, 0, 0);
  }

  function draw(ranges) {
    inks = inks || Object.fromEntries(["ink", "muted", "paper", "line", "accent"].map((name) => [name, colour(`--${name}`)]));
    palette = palette || paletteOf(inks);
    const ratio = window.devicePixelRatio || 1, css = (name) => `rgb(${inks[name].join(" ")})`;
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
    const pen = canvas.getContext("2d");
    picture(pen, ratio);
    pen.scale(ratio, ratio);
    pen.font = `12px ${getComputedStyle(canvas.parentElement).fontFamily}`;
    pen.strokeStyle = css("muted");
    pen.strokeRect(size.left - 0.5, 7.5, size.width - size.left - 7, size.height - size.bottom - 7);
    pen.fillStyle = css("ink");
    const write = (text, x, y, align) => {
      pen.textAlign = align;
      pen.fillText(text, x, y);
    };
    for (const [k, align] of [[0, "left"], [1, "right"]]) write(figure(span[k], digitsOf(span[0], span[1])), k ? size.width - 8 : size.left, size.height - 18, align);
    write(figure(span[2], digitsOf(span[2], span[3])), size.left - 4, size.height - size.bottom, "right");
    write(figure(span[3], digitsOf(span[2], span[3])), size.left - 4, 18, "right");
    write(fitted(pen, names[0], size.width - size.left - 8), (size.width + size.left) / 2, size.height - 4, "center");
    pen.save();
    pen.translate(12, (size.height - size.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    write(fitted(pen, names[1], size.height - size.bottom - 8), 0, 0, "center");
    pen.restore();
    const [xs, ys] = ranges;
    if (!xs && !ys) return;
    const inside = (value, k) => Math.min(Math.max(value, span[k]), span[k + 1]);
    const [x1, x2] = xs ? xs.map((value) => across(inside(value, 0))) : [size.left, size.width - 8];
    const [y1, y2] = ys ? ys.map((value) => up(inside(value, 2))) : [size.height - size.bottom, 8];
    pen.strokeStyle = css("ink");
    pen.strokeRect(x1, y2, x2 - x1, y1 - y2);
  }

  dragged(canvas, (a, b) => {
    const [[x1, y1], [x2, y2]] = [inner(a), inner(b)];
    if (Math.abs(b.x - a.x) < 0.01 && Math.abs(b.y - a.y) < 0.01) return nearest(a);
    const short = (value) => Number(value.toPrecision(4));
    return change([Math.min(x1, x2), Math.max(x1, x2)].map(short), [Math.min(y1, y2), Math.max(y1, y2)].map(short));
  });

  function nearest({ x, y }) {
    let best = null, least = 64;
    const [failed, others] = mask;
    for (let row = 0; row < points.x.length; row += 1) {
      const far = (across(points.x[row]) - x * size.width) ** 2 + (up(points.y[row]) - y * size.height) ** 2;
      if (far < least && (failed[row] & others) === 0) [best, least] = [row, far];
    }
    if (best === null) change(null, null);
    else open(best);
  }

  return {
    canvas, numbers: numbers.box,
    update(x, y, labels, failed, others, ranges) {
      points = { x, y };
      names = labels;
      span = [...ends(x), ...ends(y)];
      mask = [failed, others];
      canvas.setAttribute("aria-label", `${names[1]} against ${names[0]}, a point for each row; numbers and the list of rows follow`);
      draw(ranges);
      numbers.draw();
    },
    recolour() {
      inks = palette = null;
    },
  };
}

// Quartiles of y by ten intervals of x, of the rows that fit.
function byIntervals({ x, y }, names, [failed, others]) {
  const bin = binned(x, BINS), [low, high] = endsOf(x), step = (high - low) / BINS, found = Array.from({ length: BINS }, () => []);
  for (let row = 0; row < x.length; row += 1) if (bin[row] < BINS && y[row] === y[row] && (failed[row] & others) === 0) found[bin[row]].push(y[row]);
  const quartile = (sorted, share) => (sorted.length ? fixed(percentile(sorted, share)) : "–");
  return [[names[0], "rows", `${names[1]}: lower quartile`, "median", "upper quartile"], ...found.map((values, k) => {
    const sorted = Float64Array.from(values).sort();
    return [`${fixed(low + k * step)} to ${fixed(low + (k + 1) * step)}`, thousands(values.length), ...[0.25, 0.5, 0.75].map((share) => quartile(sorted, share))];
  })];
}

function fitted(pen, text, width) {
  let shown = text;
  while (shown.length > 1 && pen.measureText(shown).width > width) shown = shown.slice(0, -1);
  return shown === text ? text : `${shown}…`;
}

// Calls `done` with the two ends of a drag over `target`, as shares of its width and height, and `moving` during it, once a frame.
function dragged(target, done, moving) {
  const place = (event) => {
    const box = target.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  };
  let first = null, frame = 0;
  const stop = () => {
    window.cancelAnimationFrame(frame);
    frame = 0;
  };
  target.addEventListener("pointerdown", (event) => {
    first = place(event);
    target.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  target.addEventListener("pointermove", (event) => {
    if (!first || !moving || frame) return;
    const [start, now] = [first, place(event)];
    frame = window.requestAnimationFrame(() => {
      frame = 0;
      moving(start, now);
    });
  });
  target.addEventListener("pointerup", (event) => {
    stop();
    if (first) done(first, place(event));
    first = null;
  });
  target.addEventListener("pointercancel", () => {
    stop();
    first = null;
  });
}
