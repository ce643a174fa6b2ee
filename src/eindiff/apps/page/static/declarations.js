// The text of declarations (`A(m,n); S symmetric`), read and changed one variable at a time.
// The server reads it properly; here it is only taken apart, so that what people write there stays.

export const KINDS = [
  { id: "guess", label: "as guessed" },
  { id: "scalar", label: "scalar", order: 0 },
  { id: "vector", label: "vector", order: 1 },
  { id: "matrix", label: "matrix", order: 2 },
  { id: "symmetric", label: "symmetric matrix", order: 2, square: true },
  { id: "psd", label: "positive semidefinite matrix", order: 2, square: true },
  { id: "diagonal", label: "diagonal matrix", order: 2, square: true },
  { id: "orthogonal", label: "orthogonal matrix", order: 2, square: true },
  { id: "tensor3", label: "tensor of order 3", order: 3 },
  { id: "tensor4", label: "tensor of order 4", order: 4 },
];

export const kindOf = (id) => KINDS.find((kind) => kind.id === id);

/** The declarations in order: [{name, text}]. Separators inside parentheses do not count. */
export function entries(text) {
  const parts = text.match(/(?:\([^)]*\)?|[^;,\n(])+/g) ?? [];
  return parts
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => ({ name: part.match(/^[\p{L}_][\p{L}\p{N}_]*/u)?.[0] ?? "", text: part }));
}

/** The text with the declaration of one name changed, added, or (with null) left out. */
export function withDeclaration(text, name, declaration) {
  const all = entries(text);
  const place = all.findIndex((entry) => entry.name === name);
  if (place >= 0) all.splice(place, 1, ...(declaration === null ? [] : [{ name, text: declaration }]));
  else if (declaration !== null) all.push({ name, text: declaration });
  return all.map((entry) => entry.text).join("; ");
}

/** One declaration: `A(m,n) positive`. Sizes may be missing, except for tensors, which get names that are free. */
export function write(name, kind, sizes, positive, taken) {
  const { order, id } = kindOf(kind);
  if (kind === "guess") return null;
  const given = sizes.length === order && sizes.every(Boolean) ? sizes : order > 2 ? freeNames(order, taken) : null;
  const property = ["symmetric", "psd", "diagonal", "orthogonal"].includes(id) ? ` ${id}` : "";
  const words = property + (positive ? " positive" : "");
  if (order === 0) return `${name} scalar${words}`;
  if (given) return `${name}(${given.join(",")})${words}`;
  return `${name} ${property ? "matrix" : id}${words}`;
}

function freeNames(count, taken) {
  const names = [..."pqrstuvabcde"].filter((name) => !taken.has(name));
  return names.slice(0, count);
}

/** The kind of a variable as the chips show it. */
export function kindOfVariable({ shape, properties = [], diagonal = false }) {
  if (diagonal || properties.includes("diagonal")) return "diagonal";
  for (const property of ["psd", "symmetric", "orthogonal"]) if (properties.includes(property)) return property;
  return ["scalar", "vector", "matrix", "tensor3", "tensor4"][shape.length] ?? "tensor4";
}
