import type { IncomingMessage } from "node:http";
import type { FolderReport } from "../files/folder-changes.ts";
import { AgentError } from "../protocol/agent-error.ts";
import type { FolderWatchLine } from "../protocol/protocol.ts";

/** Maximum length of a line of a stream. */
export const maxLineBytes = 8 << 20;

/** The JSON of a text; undefined if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The body of an answer as text. Throws `InvalidAnswer` above `maxBytes`. */
export async function readText(response: IncomingMessage, maxBytes: number): Promise<string> {
  return (await readBytes(response, maxBytes)).toString("utf8");
}

/** The body of an answer. Throws `InvalidAnswer` above `maxBytes`. */
export async function readBytes(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new AgentError("InvalidAnswer", `the agent sent an answer above ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The lines of a stream, without empty ones. Throws `InvalidAnswer` above `maxLength`. */
export async function* readLines(response: AsyncIterable<Buffer>, maxLength: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLength) throw new AgentError("InvalidAnswer", `the agent sent a line above ${maxLength} bytes`);
    for (const line of lines) if (line !== "") yield line;
  }
}

/** The output of a log. Throws `Unreachable` if it is broken off. */
export async function* readLogBytes(response: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  try {
    yield* response;
  } catch (error) {
    throw new AgentError("Unreachable", "the agent broke off the log; it is incomplete", { cause: error });
  }
}

/** The reports of a watch. Throws `Unreachable` if the stream ends without the line that says so. */
export async function* readFolderReports(response: AsyncIterable<Buffer>): AsyncGenerator<FolderReport> {
  for await (const text of readLines(response, maxLineBytes)) {
    const line = JSON.parse(text) as FolderWatchLine;
    if ("hasEnded" in line) return;
    yield line;
  }
  throw new AgentError("Unreachable", "lost the connection to the agent; changes may be missing");
}
