{% include "blocks.js" %}


  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function strip(one, [kind, caption, note, top, full, shades, spans]) {
    const made = element("div", spans.length ? "strip wide-strip" : "strip");
    const head = element("p", "strip-head");
    head.append(element("b", "", caption), element("span", "", note));
    if (!spans.length) {
      const largest = element("span", "muted", `top ${top >= 0.001 || top === 0 ? top.toFixed(3) : "below 0.001"}`);
      largest.title = "The largest value. Each strip has a scale of its own: compare texts by this, not by their shades.";
      head.append(largest);
    }
    const text = element("p", `tokens ${kind}`);
    const known = new Set(one.known);
{% if special %}
    const special = new Set(one.special);
{% endif %}
    let count = 0;
    const positions = one.tokens.map((token) => (typeof token === "number" ? -1 : count++));
    const gap = (tokens) => `… ${tokens} token${tokens === 1 ? "" : "s"} …`;
    appendTokens(text, positions.length, (k) => {
      const at = positions[k];
      if (at < 0) return element("span", "gap", gap(one.tokens[k]));
      const span = element("span", known.has(at) ? "token known" : "token", one.tokens[k]);
      if (spans.length) {
        const [low, high, own] = [...spans[at], shades[at]].map((thousandths) => thousandths / 1000);
        for (const [name, share] of [["--low", low], ["--high", high], ["--own", own]]) span.style.setProperty(name, share);
        span.title = `${low} to ${high}, its own ${own}`;
      } else {
        span.style.setProperty("--w", shades[at] / 1000);
        span.title = String(Number((shades[at] * full / 1000).toPrecision(3)));
      }
{% if special %}
      if (special.has(at)) {
        span.classList.add("special");
        span.title = `special token: ${span.title}`;
      }
{% endif %}
      return span;
    }, (k) => (positions[k] < 0 ? gap(one.tokens[k]) : one.tokens[k]));
    made.append(head, text);
    return made;
  }
