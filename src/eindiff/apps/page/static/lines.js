// Wide formulas: made a little smaller, or broken before + and −, or else they scroll.

const SMALLEST = 15; // pixels of a formula that is made smaller
const MATHML = "http://www.w3.org/1998/Math/MathML";

/** Fit the formula in a box that scrolls. */
export function fitFormula(scroll) {
  const holder = scroll.firstElementChild;
  const style = getComputedStyle(scroll);
  const room = scroll.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  if (!room || holder.scrollWidth <= room) return;
  const size = parseFloat(getComputedStyle(holder).fontSize);
  const ratio = room / holder.scrollWidth;
  if (size * ratio >= SMALLEST) holder.style.fontSize = `${Math.floor(size * ratio * 10) / 10}px`;
  else breakLines(holder, room);
}

/** The row that holds the terms of the last side: rows with one child only are passed. */
function lastSide(math) {
  let row = math;
  while (row.lastElementChild?.localName === "mrow" && (row === math || row.children.length === 1)) {
    row = row.lastElementChild;
  }
  return row;
}

/** Break before signs between terms, with as many terms on a line as fit; lines go on where the first side ends. */
function breakLines(holder, room) {
  const math = holder.firstElementChild;
  const row = lastSide(math);
  const isSign = (each, place) => place && each.localName === "mo" && /^[+−-]$/.test(each.textContent);
  const signs = [...row.children].filter(isSign);
  if (row === math || !signs.length) return;
  const begin = row.getBoundingClientRect().left;
  const indent = begin - math.getBoundingClientRect().left;
  const ends = [...signs.slice(1).map((sign) => sign.getBoundingClientRect().left), row.getBoundingClientRect().right];
  const breaks = [];
  let start = begin;
  signs.forEach((sign, place) => {
    if (ends[place] - start <= room - indent) return;
    breaks.push(sign);
    start = sign.getBoundingClientRect().left;
  });
  for (const sign of breaks.reverse()) holder.firstElementChild.after(lineFrom(sign, indent));
}

/** What follows from a sign on, as a formula of its own. */
function lineFrom(sign, indent) {
  const line = document.createElementNS(MATHML, "math");
  const row = document.createElementNS(MATHML, "mrow");
  while (sign.nextSibling) row.append(sign.nextSibling);
  sign.setAttribute("form", "infix");
  row.prepend(sign);
  line.append(row);
  line.setAttribute("displaystyle", "true");
  line.setAttribute("aria-hidden", "true"); // the first line says all
  const holder = document.createElement("div");
  holder.append(line);
  holder.style.paddingLeft = `${indent}px`;
  return holder;
}
