// Questions to the server. Each kind of question has at most one open: a new one takes the place of the old.

/** What the server says is wrong: a message, a hint, where in which field, and the variables if these could be read. */
export class ServerError extends Error {
  constructor(status, body) {
    super(body?.message ?? `The server answered with status ${status}.`);
    this.status = status;
    this.field = body?.field ?? null;
    this.start = body?.start ?? null;
    this.end = body?.end ?? null;
    this.hint = body?.hint ?? "";
    this.variables = body?.variables ?? [];
  }
}

const open = new Map();

/** Ask; the answer, or null if a newer question of the same kind has been asked since. */
export async function ask(path, body, kind = path) {
  open.get(kind)?.abort();
  const controller = new AbortController();
  open.set(kind, controller);
  try {
    const answer = await send(path, body, controller.signal);
    return controller.signal.aborted ? null : answer;
  } catch (error) {
    if (controller.signal.aborted) return null;
    throw error;
  } finally {
    if (open.get(kind) === controller) open.delete(kind);
  }
}

/** Forget an open question. */
export function forget(kind) {
  open.get(kind)?.abort();
}

/** Send a question. A server that is busy is asked again twice. */
async function send(path, body, signal, tries = 3) {
  const options = body === undefined ? { signal } : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ServerError(0, { message: "The server does not answer.", hint: "Is eindiff serve still running?" });
  }
  if (response.status === 503 && tries > 1) {
    await new Promise((done) => setTimeout(done, 700));
    if (!signal.aborted) return send(path, body, signal, tries - 1);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ServerError(response.status, answer);
  return answer;
}
