// Below every figure and heatmap: save it as SVG or PNG; a heatmap, and a figure with a table, also as CSV.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const SIZE = 16, LINE = 28, WIDTH = 760;
  const MOST_PIXELS = 16384; // a side of a canvas: larger ones stay empty in some browsers

  function download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function made(tag, attributes, text) {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // Drawings below each other on the colour of the page.
  function sheet(drawings) {
    const width = Math.max(...drawings.map(({ size }) => size[0])) + 32;
    const whole = made("svg", { xmlns: NS });
    const paper = made("rect", { fill: pageColour("paper") });
    whole.append(paper);
    let y = 16;
    for (const { node, size } of drawings) {
      const part = made("g", { transform: `translate(16 ${y})`, color: pageColour("ink") });
      part.append(node);
      whole.append(part);
      y += size[1] + 16;
    }
    for (const one of [whole, paper]) {
      one.setAttribute("width", width);
      one.setAttribute("height", y);
    }
    whole.setAttribute("viewBox", `0 0 ${width} ${y}`);
    return { text: new XMLSerializer().serializeToString(whole), width, height: y };
  }

  function charts(figure) {
    return Array.from(figure.querySelectorAll(".chart svg"), (svg) => {
      const { width, height } = svg.viewBox.baseVal;
      const node = svg.cloneNode(true);
      node.setAttribute("width", width);
      node.setAttribute("height", height);
      return { node, size: [width, height] };
    });
  }

  // The strips of a heatmap: each a heading and its tokens, shaded as on the page.
  function strips(article) {
    article.dispatchEvent(new Event("whole"));
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `${SIZE}px serif`;
    return Array.from(article.querySelectorAll(".strips:not(.unshown) > .strip:not(.wide-strip)"), (strip) => {
      const node = made("g", {});
      const ink = { fill: pageColour("ink") };
      node.append(made("text", { ...ink, y: 12, "font-family": "sans-serif", "font-size": 13 }, strip.querySelector(".strip-head").innerText.replace(/\s+/g, " ")));
      let [x, y] = [0, 40];
      for (const word of strip.querySelectorAll(".token, .gap")) {
        const width = Math.min(pen.measureText(word.textContent).width, WIDTH - 8) + 8;
        if (x > 0 && x + width > WIDTH) [x, y] = [0, y + LINE];
        const hue = pageColour("hue", word);
        const share = Number(word.style.getPropertyValue("--w")) || 0;
        node.append(made("rect", { x, y: y - SIZE - 1, width, height: SIZE + 8, rx: 3, fill: hue, "fill-opacity": 0.8 * share }));
        node.append(made("text", { ...ink, x: x + 4, y, "font-family": "serif", "font-size": SIZE }, word.textContent));
        x += width + 3;
      }
      return { node, size: [WIDTH, y + 12] };
    });
  }

  const quoted = (value) => `"${value.replaceAll('"', '""')}"`;

  function weights(article) {
    article.dispatchEvent(new Event("whole"));
    const rows = Array.from(article.querySelectorAll(".strips:not(.unshown) > .strip"), (strip) => {
      const caption = strip.querySelector(".strip-head b").textContent;
      return Array.from(strip.querySelectorAll(".token"), (token) => [caption, token.textContent, token.title]);
    });
    return [["weights", "token", "weight"], ...rows.flat()];
  }

  function table(figure) {
    return Array.from(figure.querySelectorAll("table tr"), (row) => Array.from(row.cells, (cell) => cell.textContent.trim()));
  }

  function png({ text, width, height }, name) {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      const scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
      [canvas.width, canvas.height] = [scale * width, scale * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(blob, name), "image/png");
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }

  function offer(place, name, drawings, rows) {
    const bar = document.createElement("details"); // one stop of the tab key until it is opened
    bar.className = "save";
    const head = document.createElement("summary");
    head.textContent = "Save";
    head.setAttribute("aria-label", `Save ${name}`);
    const kinds = {
      SVG: () => download(new Blob([sheet(drawings()).text], { type: "image/svg+xml" }), `${name}.svg`),
      PNG: () => png(sheet(drawings()), `${name}.png`),
      ...(rows && { CSV: () => download(new Blob([rows().map((row) => row.map(quoted).join(",")).join("\r\n")], { type: "text/csv" }), `${name}.csv`) }),
    };
    bar.append(head, ...Object.entries(kinds).flatMap(([kind, act]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", `Save ${name} as ${kind}`);
      button.addEventListener("click", act);
      return [button, " "];
    }));
    place.append(bar);
  }

  for (const figure of document.querySelectorAll("figure[id^='figure-']")) {
    if (figure.querySelector(".chart svg")) offer(figure.querySelector("figcaption"), figure.id, () => charts(figure), figure.querySelector("table") && (() => table(figure)));
  }
  document.querySelectorAll("#heatmaps .heatmap").forEach((article) => {
    const name = article.querySelector("h4 a").hash.slice(1).replace("instance", "heatmap");
    offer(article, name, () => strips(article), () => weights(article));
  });
})();
