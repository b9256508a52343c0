// Attention and relevance of a text at one step of the training after another.
const form = byId("growth-form"), { steps, instances } = dataOf("growth-data");
const { instance, at, play } = form.elements;
const FAINT = 20; // thousandths: a weaker shade is not seen, and so not marked
const PAUSE = 500; // ms between two steps
let timer = 0;

function draw() {
  const one = instances[instance.value], step = Number(at.value), after = `after ${steps[step]} steps`;
  for (const [kind, shadesOf] of Object.entries(one.shades)) {
    const shades = shadesOf[step], place = byId(`growth-${kind}`);
    place.replaceChildren();
    appendTokens(place, one.tokens, (word, k) => {
      const span = element("span", shades[k] <= -FAINT ? "token against" : "token", word);
      span.style.setProperty("--w", Math.abs(shades[k]) / 1000);
      span.title = short((shades[k] * one.full[kind]) / 1000);
      return span;
    });
  }
  at.ariaValueText = after;
  byId("growth-said").textContent = `${after}: probability of ${one.gold} ${one.probability[step].toFixed(3)}`;
}

function stop() {
  timer = clearInterval(timer);
  play.textContent = "play";
  draw();
}

function start() {
  if (at.value === at.max) at.value = "0";
  play.textContent = "stop";
  draw();
  timer = setInterval(() => {
    at.stepUp();
    draw();
    if (at.value === at.max) stop();
  }, PAUSE);
}

on(instance, "change", draw);
on(at, "input", stop);
on(play, "click", () => (timer ? stop() : start()));
on(form, "submit", (event) => event.preventDefault());
draw();
