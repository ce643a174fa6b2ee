// A picture that can be moved and made larger: with the mouse, fingers, or keys.

const LARGEST = 6;
const READABLE = 0.75; // pixels for each unit

/**
 * Make `box`, which holds an SVG, a window on it, not higher than the picture needs; where it is too large for that, the
 * window opens on the text `result`. Returns {zoom(factor), fit()}.
 */
export function panZoom(box, svg, result) {
  const whole = svg.viewBox.baseVal;
  const full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
  let view = { x: 0, y: 0, scale: 1 }; // the middle, and pixels for each unit
  box.style.maxHeight = `${Math.max(240, full.h * 1.25 + 30)}px`;
  svg.removeAttribute("width");
  svg.removeAttribute("height");

  const fitting = () => Math.min(box.clientWidth / (full.w + 16), box.clientHeight / (full.h + 16));

  function show() {
    const w = box.clientWidth / view.scale;
    const h = box.clientHeight / view.scale;
    if (w && h) svg.setAttribute("viewBox", `${view.x - w / 2} ${view.y - h / 2} ${w} ${h}`);
  }

  function fit() {
    view = { x: full.x + full.w / 2, y: full.y + full.h / 2, scale: Math.min(fitting(), 1.25) };
    show();
  }

  /** All of it if that can be read; else its result, which is on top. */
  function start() {
    fit();
    if (view.scale >= READABLE) return;
    view.scale = READABLE;
    view.x = Number(result?.getAttribute("x") ?? view.x);
    view.y = Number(result?.getAttribute("y") ?? full.y) - 24 + box.clientHeight / READABLE / 2;
    show();
  }

  function move(dx, dy) {
    const clamp = (value, low, size) => Math.min(low + size, Math.max(low, value));
    view.x = clamp(view.x - dx / view.scale, full.x, full.w);
    view.y = clamp(view.y - dy / view.scale, full.y, full.h);
    show();
  }

  /** Larger by a factor; the point at (px, py) of the box stays where it is. */
  function zoom(factor, px = box.clientWidth / 2, py = box.clientHeight / 2) {
    const scale = Math.min(LARGEST, Math.max(Math.min(fitting(), 1) * 0.7, view.scale * factor));
    const dx = px - box.clientWidth / 2;
    const dy = py - box.clientHeight / 2;
    view.x += dx / view.scale - dx / scale;
    view.y += dy / view.scale - dy / scale;
    view.scale = scale;
    show();
  }

  listen(box, { move, zoom, fit });
  new ResizeObserver(start).observe(box);
  return { zoom, fit };
}

function listen(box, { move, zoom, fit }) {
  const fingers = new Map();
  const place = (event) => {
    const { left, top } = box.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  box.addEventListener("pointerdown", (event) => {
    box.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    box.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  box.addEventListener("pointermove", (event) => {
    const old = fingers.get(event.pointerId);
    if (!old) return;
    const now = place(event);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    if (!other) return move(now[0] - old[0], now[1] - old[1]);
    const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    zoom(distance(now, other) / distance(old, other), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    move((now[0] - old[0]) / 2, (now[1] - old[1]) / 2);
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== box) return; // the page scrolls
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...place(event));
  }, { passive: false });
  box.addEventListener("dblclick", (event) => zoom(1.6, ...place(event)));
  const keys = {
    ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0),
    ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit,
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
