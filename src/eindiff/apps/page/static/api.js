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
    this.choices = body?.choices ?? [];
  }
}

/** The status of a question that a person has stopped. */
export const STOPPED = -1;
const BUSY = [429, 503];

const open = new Map();
const me = Math.random().toString(36).slice(2); // so that the server is fair to several people at one address

/** Ask; the answer, or null if a newer question of the same kind has been asked since. */
export async function ask(path, body, kind = path) {
  open.get(kind)?.abort();
  const controller = new AbortController();
  open.set(kind, controller);
  const { signal } = controller;
  try {
    const answer = await send(path, body, signal);
    return signal.aborted ? null : answer;
  } catch (error) {
    if (signal.reason instanceof ServerError) throw signal.reason;
    if (signal.aborted) return null;
    throw error;
  } finally {
    if (open.get(kind) === controller) open.delete(kind);
  }
}

/** Forget an open question. */
export function forget(kind) {
  open.get(kind)?.abort();
}

/** Stop an open question, as a person wants: whoever asked it is told so. The server ends its work on it. */
export function stop(kind) {
  open.get(kind)?.abort(new ServerError(STOPPED, { message: "Stopped." }));
}

/** Send a question. A server that is busy is asked again twice; one that gave up is not. */
async function send(path, body, signal, tries = 3) {
  const options = body === undefined ? { signal } : {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Client": me },
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
  if (BUSY.includes(response.status) && tries > 1) {
    await new Promise((done) => setTimeout(done, 700));
    if (!signal.aborted) return send(path, body, signal, tries - 1);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ServerError(response.status, answer);
  return answer;
}
