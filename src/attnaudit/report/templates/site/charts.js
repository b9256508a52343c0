// Charts of the rows: a histogram and a plane of two measures. A brush gives a range; the fields below the histogram take the same by keyboard.
const WIDE = 220, HIGH = 76, BARS = 40;

// A colour of the page as it is now: a canvas does not know variables.
function colour(name) {
  const probe = document.getElementById("site-error");
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.style.color = "";
  return found;
}

// A histogram of `values`; `change(range)` is called with [from, to], or null where all are meant.
function histogram(title, values, change) {
  const low = values.reduce((a, b) => (b < a ? b : a), Infinity);
  const high = values.reduce((a, b) => (b > a ? b : a), -Infinity);
  const width = high - low || 1;
  const bars = Math.min(BARS, new Set(values.slice(0, 4000)).size <= 2 ? 2 : BARS);
  const bin = new Uint8Array(values.length);
  for (let row = 0; row < values.length; row += 1) {
    const place = Math.floor(((values[row] - low) / width) * bars);
    bin[row] = Number.isNaN(values[row]) ? 255 : Math.min(place, bars - 1);
  }
  const chart = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH + 16}`, class: "brushed", "aria-hidden": "true" });
  const all = drawn("path", { class: "of-all" });
  const fit = drawn("path", { class: "of-fit" });
  const brush = drawn("rect", { class: "brush", y: 0, height: HIGH, width: 0 });
  const axis = drawn("line", { class: "axis", x1: 0, x2: WIDE, y1: HIGH, y2: HIGH });
  const known = low <= high;
  const ends = known ? [[0, "start", low], [WIDE / 2, "middle", low + width / 2], [WIDE, "end", low + width]] : [];
  chart.append(all, fit, brush, axis, ...ends.map(([x, anchor, value]) =>
    drawn("text", { x, y: HIGH + 13, "text-anchor": anchor }, figure(value, width < 0.05 ? 4 : 2))));
  const from = number("from"), to = number("to");
  const box = element("fieldset", "chart-box");
  const count = element("span", "muted");
  const fields = element("div", "range-fields");
  fields.append(labelled("from", from), labelled("to", to), count);
  const legend = element("legend");
  legend.append(element("span", "chart-title", title));
  box.append(legend, chart, fields);

  const total = counts(() => true);
  draw(total);

  function number(name) {
    const field = element("input");
    Object.assign(field, { type: "number", name, step: "any" });
    field.addEventListener("change", () => change(from.value === "" && to.value === "" ? null : [
      from.value === "" ? -Infinity : Number(from.value), to.value === "" ? Infinity : Number(to.value)]));
    return field;
  }

  function counts(fits) {
    const found = new Uint32Array(bars);
    for (let row = 0; row < bin.length; row += 1) if (bin[row] !== 255 && fits(row)) found[bin[row]] += 1;
    return found;
  }

  // Both as shares of their own rows, so that few rows that fit are visible among many.
  function draw(found) {
    const shares = [total, found].map((one) => {
      const sum = one.reduce((a, b) => a + b, 0) || 1;
      return Array.from(one, (rows) => rows / sum);
    });
    const scale = Math.max(...shares[0], ...shares[1]) || 1;
    all.setAttribute("d", outline(shares[0], scale));
    fit.setAttribute("d", outline(shares[1], scale));
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

  const brushed = (a, b) => {
    const [x1, x2] = [a.x, b.x].map((x) => Math.min(Math.max(x, 0), 1)).sort((one, other) => one - other);
    change(x2 - x1 < 0.01 ? null : [Number((low + x1 * width).toPrecision(4)), Number((low + x2 * width).toPrecision(4))]);
  };
  dragged(chart, brushed, brushed);

  return {
    box, legend,
    update(fits, range, undefinedRows) {
      draw(counts(fits));
      const [start, end] = range || [low, low];
      const x = Math.min(Math.max((start - low) / width, 0), 1) * WIDE;
      brush.setAttribute("x", x);
      brush.setAttribute("width", Math.max(Math.min(Math.max((end - low) / width, 0), 1) * WIDE - x, 0));
      from.value = range && Number.isFinite(range[0]) ? range[0] : "";
      to.value = range && Number.isFinite(range[1]) ? range[1] : "";
      from.placeholder = figure(low, 2);
      to.placeholder = figure(high, 2);
      count.textContent = undefinedRows ? `${thousands(undefinedRows)} undefined` : "";
    },
  };
}

// A point for each row of two measures; `change` is called with the ranges of both, `open` with the row of a click.
function plane(change, open) {
  const size = { width: 460, height: 320, left: 44, bottom: 34 };
  const canvas = element("canvas", "plane");
  canvas.setAttribute("role", "img");
  let points = { x: new Float64Array(), y: new Float64Array() }, span = [0, 1, 0, 1], last = () => true;

  const ends = (values) => {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? [low, high === low ? low + 1 : high] : [0, 1];
  };
  const across = (value) => size.left + ((value - span[0]) / (span[1] - span[0])) * (size.width - size.left - 8);
  const up = (value) => size.height - size.bottom - ((value - span[2]) / (span[3] - span[2])) * (size.height - size.bottom - 8);
  const inner = ({ x, y }) => [
    span[0] + ((x * size.width - size.left) / (size.width - size.left - 8)) * (span[1] - span[0]),
    span[2] + ((size.height - size.bottom - y * size.height) / (size.height - size.bottom - 8)) * (span[3] - span[2]),
  ];

  function draw(fits, ranges, names) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = size.width * ratio;
    canvas.height = size.height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const ink = colour("--ink");
    pen.font = `12px ${getComputedStyle(canvas.parentElement).fontFamily}`;
    pen.strokeStyle = pen.fillStyle = colour("--muted");
    pen.strokeRect(size.left - 0.5, 7.5, size.width - size.left - 7, size.height - size.bottom - 7);
    for (const [fitting, paint, alpha] of [[false, colour("--line"), 0.5], [true, colour("--accent"), 0.45]]) {
      pen.fillStyle = paint;
      pen.globalAlpha = alpha;
      for (let row = 0; row < points.x.length; row += 1) {
        if (fits(row) === fitting && points.x[row] === points.x[row] && points.y[row] === points.y[row]) {
          pen.fillRect(across(points.x[row]) - 1.5, up(points.y[row]) - 1.5, 3, 3);
        }
      }
    }
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    const write = (text, x, y, align) => {
      pen.textAlign = align;
      pen.fillText(text, x, y);
    };
    const digits = (low, high) => (high - low < 0.05 ? 4 : 2);
    for (const [k, align] of [[0, "left"], [1, "right"]]) write(figure(span[k], digits(span[0], span[1])), k ? size.width - 8 : size.left, size.height - 18, align);
    write(figure(span[2], digits(span[2], span[3])), size.left - 4, size.height - size.bottom, "right");
    write(figure(span[3], digits(span[2], span[3])), size.left - 4, 18, "right");
    write(fitted(pen, names[0], size.width - size.left - 8), (size.width + size.left) / 2, size.height - 4, "center");
    pen.save();
    pen.translate(12, (size.height - size.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    write(fitted(pen, names[1], size.height - size.bottom - 8), 0, 0, "center");
    pen.restore();
    const [xs, ys] = ranges;
    if (xs || ys) {
      const inside = (value, k) => Math.min(Math.max(value, span[k]), span[k + 1]);
      const [x1, x2] = xs ? xs.map((value) => across(inside(value, 0))) : [size.left, size.width - 8];
      const [y1, y2] = ys ? ys.map((value) => up(inside(value, 2))) : [size.height - size.bottom, 8];
      pen.strokeStyle = ink;
      pen.strokeRect(x1, y2, x2 - x1, y1 - y2);
    }
    last = fits;
  }

  dragged(canvas, (a, b) => {
    const [[x1, y1], [x2, y2]] = [inner(a), inner(b)];
    if (Math.abs(b.x - a.x) < 0.01 && Math.abs(b.y - a.y) < 0.01) return nearest(a);
    const short = (value) => Number(value.toPrecision(4));
    return change([Math.min(x1, x2), Math.max(x1, x2)].map(short), [Math.min(y1, y2), Math.max(y1, y2)].map(short));
  });

  function nearest({ x, y }) {
    let best = null, least = 64;
    for (let row = 0; row < points.x.length; row += 1) {
      const far = (across(points.x[row]) - x * size.width) ** 2 + (up(points.y[row]) - y * size.height) ** 2;
      if (far < least && last(row)) [best, least] = [row, far];
    }
    if (best === null) change(null, null);
    else open(best);
  }

  return {
    canvas,
    update(x, y, names, fits, ranges) {
      points = { x, y };
      span = [...ends(x), ...ends(y)];
      canvas.setAttribute("aria-label", `${names[1]} against ${names[0]}, a point for each row; the same rows are in the list below`);
      draw(fits, ranges, names);
    },
  };
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
