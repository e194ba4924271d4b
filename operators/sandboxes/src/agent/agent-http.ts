import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ExecSpec, ExecutionError } from "@keelson/execution";
import { isTerminalSize } from "../protocol/exec-frames.ts";
import { unknownSandbox } from "../protocol/agent-error.ts";

/* Requests and answers of an agent's API. */

const maxBodyBytes = 1 << 20;

/** A request that is answered with an HTTP status of its own. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The path and query of a request. */
export const urlOf = (request: IncomingMessage): URL => new URL(request.url ?? "/", "http://agent");

/** The error of a request for an unknown sandbox. */
export const sandboxNotFound = (): RequestError => new RequestError(404, unknownSandbox);

/** Rejects any method but GET. */
export function requireGet(request: IncomingMessage): void {
  if (request.method !== "GET") throw new RequestError(405, "method not allowed; use GET");
}

/** The body of a failed request. */
export const failureOf = (error: unknown): object => ({
  success: false,
  message: error instanceof Error ? error.message : String(error),
});

/** The command of an exec request: `command` once per argument, `env` once per variable, `workingDir`, `user`, `columns` and `rows` for a terminal. */
export function execSpec(query: URLSearchParams): ExecSpec {
  const [first, ...rest] = query.getAll("command");
  if (first === undefined || first === "") throw new RequestError(400, "command: must name a program");
  const cwd = query.get("workingDir") ?? undefined;
  const user = query.get("user") ?? undefined;
  const settings = {
    env: readEnvironment(query.getAll("env")),
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
  };
  if (!query.has("columns")) return { command: [first, ...rest], ...settings };
  const terminal = { columns: Number(query.get("columns")), rows: Number(query.get("rows")) };
  if (!isTerminalSize(terminal)) throw new RequestError(400, "columns, rows: must be 1 to 10000");
  return { command: [first, ...rest], terminal, ...settings };
}

/** Variables as `NAME=VALUE`. */
function readEnvironment(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const end = pair.indexOf("=");
      if (end < 1) throw new RequestError(400, "env: must be NAME=VALUE");
      return [pair.slice(0, end), pair.slice(end + 1)];
    }),
  );
}

const statusByCode: Partial<Record<ExecutionError["code"], number>> = {
  InvalidSpec: 400,
  NotRunning: 409,
  Paused: 409,
  Unsupported: 501,
};

/** The HTTP status of a driver's error. */
export const execStatus = (error: unknown): number =>
  error instanceof ExecutionError ? (statusByCode[error.code] ?? 500) : 500;

/** Rejects with a driver's error as that of a request. */
export function asRequestError(error: unknown): never {
  throw error instanceof ExecutionError ? new RequestError(execStatus(error), error.message) : error;
}

/** Answers with JSON. */
export function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

/** Answers an upgrade that failed. */
export function endUpgrade(socket: Duplex, status: number, error: unknown): void {
  const text = JSON.stringify(failureOf(error));
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
}

/** The JSON body of a POST request, within its limit. */
export async function body(request: IncomingMessage): Promise<unknown> {
  const bytes = await readBody(request);
  try {
    return JSON.parse(bytes.toString("utf8")) as unknown;
  } catch {
    throw new RequestError(400, "the body is not valid JSON");
  }
}

/** The body of a POST request, within its limit. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  if (request.method !== "POST") throw new RequestError(405, "method not allowed; use POST");
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw new RequestError(413, "the body exceeds 1 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
