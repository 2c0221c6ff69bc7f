// Functions that return what is visible on the page, for the tests.
const view = {
  color(text) {
    const found = text.match(/[\d.]+/g).map(Number);
    const wide = text.startsWith("color(") ? found.slice(0, 3).map((one) => one * 255) : found.slice(0, 3);
    return [...wide, found.length > 3 ? found[3] : 1];
  },
  over(top, below) {
    const alpha = top[3];
    return [0, 1, 2].map((i) => top[i] * alpha + below[i] * (1 - alpha)).concat(1);
  },
  luminance([r, g, b]) {
    const [x, y, z] = [r, g, b].map((c) => {
      const one = c / 255;
      return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  },
  contrast(one, other) {
    const [light, dark] = [view.luminance(one), view.luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  },
  // What one element paints below a point: a shape its fill, a box its background.
  painted(element) {
    const style = getComputedStyle(element);
    const shape = element instanceof SVGGeometryElement;
    if (!shape && element instanceof SVGElement) return [0, 0, 0, 0];
    const said = shape ? style[element.tagName === "line" ? "stroke" : "fill"] : style.backgroundColor;
    if (!/^(rgb|color)/.test(said)) return [0, 0, 0, 0];
    const found = view.color(said);
    found[3] *= (shape ? Number(style.fillOpacity) : 1) * Number(style.opacity);
    return found;
  },
  behind(element, x, y) {
    let color = view.color(getComputedStyle(document.body).backgroundColor);
    const stack = document.elementsFromPoint(x, y).filter((one) => !element.contains(one));
    for (const one of stack.reverse()) color = view.over(view.painted(one), color);
    return color;
  },
  // Every element with a text of its own: the text, and its contrast to what is really painted behind its middle.
  texts(root = document.body) {
    const found = [];
    for (const element of root.querySelectorAll("*")) {
      if (element.closest("title, desc, style, defs, .skip")) continue;
      const own = [...element.childNodes].filter((one) => one.nodeType === 3 && one.data.trim());
      if (!own.length || !element.getClientRects().length) continue;
      element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const range = document.createRange();
      range.selectNodeContents(own[0]);
      const box = range.getClientRects()[0] || element.getBoundingClientRect();
      const style = getComputedStyle(element);
      const svg = element instanceof SVGElement;
      const color = view.color(svg ? style.fill : style.color);
      const behind = view.behind(element, box.x + Math.min(box.width / 2, 20), box.y + box.height / 2);
      found.push({ text: own[0].data.trim().slice(0, 40), contrast: view.contrast(view.over(color, behind), behind) });
    }
    return found;
  },
  // Two texts of one chart that lie on each other.
  overlaps() {
    const found = [];
    for (const svg of document.querySelectorAll("svg.chart")) {
      const boxes = [...svg.querySelectorAll("text")]
        .map((one) => ({ text: one.textContent, box: one.getBoundingClientRect() }))
        .filter((one) => one.box.width);
      boxes.forEach((one, number) =>
        boxes.slice(number + 1).forEach((other) => {
          const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
          const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
          if (wide > 1 && high > 3) found.push([one.text, other.text]);
        }));
    }
    return found;
  },
  // Texts that are not all within the window. What scrolls sideways is cut, too.
  cut(width) {
    const found = [];
    for (const element of document.body.querySelectorAll("*")) {
      if (element.closest("title, desc, style, script, defs, .skip, .unseen, .stacked thead, button")) continue;
      const own = [...element.childNodes].filter((one) => one.nodeType === 3 && one.data.trim());
      for (const node of own) {
        const range = document.createRange();
        range.selectNodeContents(node);
        const boxes = [...range.getClientRects()];
        if (boxes.some((box) => box.width && (box.left < -0.5 || box.right > width + 0.5))) found.push(node.data.trim());
      }
    }
    return found;
  },
  charts() {
    return [...document.querySelectorAll("svg.chart")].map((svg) => {
      const box = svg.getBoundingClientRect();
      const shapes = [...svg.querySelectorAll("rect, circle, path, line")].filter((one) => !one.closest("defs"));
      const drawn = shapes.filter((one) => {
        const own = one.getBoundingClientRect();
        return own.width > 0 || own.height > 0;
      });
      return { name: svg.getAttribute("aria-labelledby"), width: box.width, height: box.height, drawn: drawn.length };
    });
  },
  focused() {
    const one = document.activeElement;
    const style = getComputedStyle(one);
    return { css: one.className, tag: one.tagName, label: one.getAttribute("aria-labelledby") || "",
      outline: parseFloat(style.outlineWidth) || 0, top: one.getBoundingClientRect().top };
  },
  unfold() {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
  },
};
