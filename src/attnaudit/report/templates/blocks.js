  // A text of many tokens in blocks: each has its words as plain text, for the search and the screen reader, and its shaded tokens once it
  // is in view. The style keeps blocks out of view from being laid out.
  const BLOCK = 100;
  const unseen = new WeakMap(); // blocks that were not in view yet: what fills them
  const inView = new IntersectionObserver((entries) => entries.forEach(({ isIntersecting, target }) => isIntersecting && fillBlock(target)));

  function fillBlock(block) {
    if (!unseen.has(block)) return;
    block.replaceChildren(...unseen.get(block)());
    unseen.delete(block);
    inView.unobserve(block);
  }

  // Appends `length` tokens, or gaps, to `text`: `drawn(k)` is the element of one, `plain(k)` its words.
  function appendTokens(text, length, drawn, plain) {
    const positions = Array.from({ length }, (_, k) => k);
    const nodes = (some) => some.flatMap((k) => [drawn(k), " "]);
    if (length <= 2 * BLOCK) {
      text.append(...nodes(positions));
      return;
    }
    for (let first = 0; first < length; first += BLOCK) {
      const block = document.createElement("span"), some = positions.slice(first, first + BLOCK);
      block.className = "block";
      block.textContent = some.map(plain).join(" ");
      unseen.set(block, () => nodes(some));
      inView.observe(block);
      text.append(block, " ");
    }
    text.tabIndex = 0; // a box that scrolls is scrolled by keyboard
    text.setAttribute("role", "group");
    text.setAttribute("aria-label", "Tokens");
  }

  // Scrolls the boxes of one text together, and to the token `most` once they are in view. Boxes whose tokens are wider are left alone.
  function scrollTogether(strips, most) {
    const boxes = Array.from(strips.querySelectorAll(".strip:not(.wide-strip) .tokens"));
    for (const box of boxes) {
      box.addEventListener("scroll", () => boxes.forEach((other) => (other.scrollTop = box.scrollTop)), { passive: true });
    }
    const first = new IntersectionObserver((entries) => {
      if (!entries.some((one) => one.isIntersecting)) return;
      first.disconnect();
      strips.querySelectorAll(".tokens").forEach((box) => scrollToToken(box, most));
    });
    first.observe(strips);
  }

  function scrollToToken(box, most) {
    const from = (node) => node.getBoundingClientRect().top - box.getBoundingClientRect().top;
    const block = box.querySelectorAll(".block")[Math.floor(most / BLOCK)];
    if (!block) return;
    fillBlock(block);
    box.scrollTop += from(block); // what is out of view has an estimated height
    box.scrollTop += from(block.children[most % BLOCK]) - box.clientHeight / 2;
  }
