// MathML and SVG from the server, through a sieve: only known elements with known attributes reach the page.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const SVG = "http://www.w3.org/2000/svg";

const words = (text) => new Set(text.split(/\s+/));

const ELEMENTS = {
  [MATHML]: words(
    `math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup munder mover
     munderover mmultiscripts mprescripts none mtable mtr mtd semantics menclose mfenced`,
  ),
  [SVG]: words(
    "svg g defs marker path rect circle ellipse line polyline polygon text tspan title desc clipPath pattern use",
  ),
};

const ATTRIBUTES = {
  [MATHML]: words(
    `display displaystyle scriptlevel mathvariant form fence separator stretchy symmetric maxsize minsize largeop
     movablelimits lspace rspace linethickness rowspacing columnspacing columnalign rowalign width height depth voffset
     accent accentunder dir notation open close separators columnlines rowlines frame rowspan columnspan`,
  ),
  [SVG]: words(
    `width height viewBox preserveAspectRatio x y x1 y1 x2 y2 cx cy r rx ry dx dy d points transform fill fill-opacity
     fill-rule stroke stroke-width stroke-opacity stroke-dasharray stroke-linecap stroke-linejoin opacity font-family
     font-size font-style font-weight text-anchor dominant-baseline marker-end marker-start refX refY markerWidth
     markerHeight orient clip-path patternUnits id class role aria-label aria-hidden href text-decoration
     data-kind data-order`,
  ),
};

/** May this attribute stay? Links lead only inside the same picture, and `url(...)` too. */
function allowed(namespace, { name, value }) {
  if (!ATTRIBUTES[namespace].has(name)) return false;
  if (name === "href") return value.startsWith("#");
  return !/url\(\s*['"]?(?!#)/i.test(value) && !/javascript:/i.test(value);
}

/** Whether this is a sign in front of a term, not between two: then there is less space around it. */
function isSign(node) {
  if (node.localName !== "mo" || node.hasAttribute("form") || !/^[−+-]$/.test(node.textContent)) return false;
  const before = node.previousElementSibling;
  if (before?.localName !== "mo") return before === null;
  return before.getAttribute("form") !== "postfix" && !/^[\])}|‖!]$/.test(before.textContent);
}

/** A copy of a parsed element with only what is allowed; `prefix` makes ids unique on the page. */
function sieve(node, prefix) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.nodeValue);
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  const { namespaceURI: namespace, localName: tag } = node;
  if (!ELEMENTS[namespace]?.has(tag)) return null;
  const copy = document.createElementNS(namespace, tag);
  for (const attribute of node.attributes) {
    if (!allowed(namespace, attribute)) continue;
    let value = attribute.value;
    if (attribute.name === "id") value = prefix + value;
    value = value.replace(/url\(\s*['"]?#/g, `url(#${prefix}`);
    if (attribute.name === "href") value = `#${prefix}${value.slice(1)}`;
    copy.setAttribute(attribute.name, value);
  }
  if (namespace === MATHML && isSign(node)) copy.setAttribute("form", "prefix");
  for (const child of node.childNodes) {
    const kept = sieve(child, prefix);
    if (kept) copy.append(kept);
  }
  return copy;
}

let count = 0;

function parsed(text, namespace, tag) {
  const root = new DOMParser().parseFromString(text, "application/xml").documentElement;
  if (root.namespaceURI !== namespace || root.localName !== tag) return null;
  return sieve(root, `p${++count}-`);
}

/** A formula; if it cannot be read, its plain text instead. */
export function formula(mathml, text) {
  const math = mathml ? parsed(mathml, MATHML, "math") : null;
  if (!math) {
    const code = document.createElement("code");
    code.textContent = text;
    return code;
  }
  math.setAttribute("display", "inline");
  if (text) math.setAttribute("aria-label", text);
  return math;
}

/** `left = right = right` as one formula, so that all sides stand on one line; the text if one cannot be read. */
export function equation(sides, text) {
  const parts = sides.map((side) => parsed(side, MATHML, "math"));
  if (!parts.length || parts.includes(null)) return formula("", text);
  const math = parts[0];
  for (const part of parts.slice(1)) {
    const sign = document.createElementNS(MATHML, "mo");
    sign.textContent = "=";
    math.append(sign, ...part.childNodes);
  }
  math.setAttribute("display", "inline");
  math.setAttribute("displaystyle", "true");
  math.setAttribute("aria-label", text);
  return math;
}

/** A picture, or null if it cannot be read. */
export function picture(svg, label) {
  const image = parsed(svg, SVG, "svg");
  if (image && label) {
    image.setAttribute("role", "img");
    image.setAttribute("aria-label", label);
  }
  return image;
}
