// Figures and heatmaps that are shown, saved as SVG, and the numbers of figures as CSV.
const SIZE = 16, LINE = 28, WIDTH = 760;

function download(blob, name) {
  const link = Object.assign(element("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csv = (rows) => rows
  .map((row) => row.map((text) => `"${text.replaceAll('"', '""')}"`).join(",")).join("\r\n");

// A copy with the colours of the page: other programs know neither its classes nor its variables.
function copied(drawing) {
  const node = drawing.cloneNode(true), copies = [node, ...node.querySelectorAll("*")];
  [drawing, ...drawing.querySelectorAll("*")].forEach((one, k) => {
    const { fill, stroke } = getComputedStyle(one);
    copies[k].setAttribute("fill", fill);
    copies[k].setAttribute("stroke", stroke);
  });
  const { width, height } = drawing.viewBox.baseVal;
  const attributes = { width, height, "font-family": getComputedStyle(drawing).fontFamily };
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return { node, size: [width, height] };
}

// A heading, and below it tokens in lines, each shaded as on the page.
function textOf(heading, words) {
  const { color: fill } = getComputedStyle(document.body), pen = element("canvas").getContext("2d");
  const title = svg("text", { fill, y: 12, "font-family": "sans-serif", "font-size": 13 }, heading);
  const node = svg("g", { "font-family": "serif", "font-size": SIZE }, title);
  pen.font = `${SIZE}px serif`;
  let [x, y] = [0, 40];
  for (const word of words) {
    const style = getComputedStyle(word), opacity = 0.8 * style.getPropertyValue("--w");
    const width = Math.min(pen.measureText(word.textContent).width, WIDTH - 8) + 8;
    if (x > 0 && x + width > WIDTH) [x, y] = [0, y + LINE];
    const box = { x, y: y - SIZE - 1, width, height: SIZE + 8, rx: 3, opacity };
    node.append(svg("rect", { ...box, fill: style.getPropertyValue("--hue") }),
      svg("text", { fill, x: x + 4, y }, word.textContent));
    x += width + 3;
  }
  return { node, size: [WIDTH, y + 12] };
}

// Drawings below each other on the colour of the page.
function sheet(drawings) {
  const { color, backgroundColor: fill } = getComputedStyle(document.body);
  const width = Math.max(...drawings.map(({ size }) => size[0])) + 32;
  let height = 16;
  const parts = drawings.map(({ node, size }) => {
    const part = svg("g", { transform: `translate(16 ${height})`, color }, node);
    height += size[1] + 16;
    return part;
  });
  const paper = svg("rect", { width, height, fill });
  const whole = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, paper, ...parts);
  return new XMLSerializer().serializeToString(whole);
}

// A closed list of buttons: one stop of the tab key until it is opened.
function offer(name, drawings, rows) {
  const kinds = { SVG: () => sheet(drawings()), ...(rows && { CSV: () => csv(rows()) }) };
  const buttons = Object.entries(kinds).flatMap(([kind, make]) => {
    const made = button(kind, () => download(new Blob([make()]), `${name}.${kind.toLowerCase()}`));
    made.ariaLabel = `Save ${name} as ${kind}`;
    return [made, " "];
  });
  const head = Object.assign(element("summary", "", "Save"), { ariaLabel: `Save ${name}` });
  return element("details", "save", head, ...buttons);
}

for (const figure of document.querySelectorAll("figure[id^='figure-']")) {
  const [charts, lines] = [".chart svg", "tr"].map((name) => Array.from(figure.querySelectorAll(name)));
  const rows = () => lines.map((row) => Array.from(row.cells, (cell) => cell.textContent.trim()));
  if (!charts.length) continue;
  figure.querySelector("figcaption").append(offer(figure.id, () => charts.map(copied), lines.length && rows));
}

for (const article of document.querySelectorAll("#heatmaps .heatmap")) {
  const heading = (one) => one.querySelector(".strip-head").innerText.replace(/\s+/g, " ");
  const drawings = () => Array.from(article.querySelectorAll(".strip:not(.wide-strip)"),
    (one) => textOf(heading(one), one.querySelectorAll(".token")));
  const name = article.querySelector("h4 a").hash.slice(1).replace("instance", "heatmap");
  article.append(offer(name, drawings));
}
