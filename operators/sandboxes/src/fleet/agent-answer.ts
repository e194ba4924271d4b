import type { IncomingMessage } from "node:http";
import type { FileResult } from "../files/file-operations.ts";
import type { FolderReport } from "../files/folder-changes.ts";
import { agentStatusInSteps, fileResultInSteps, fileResultOf, folderLineOf } from "../protocol/agent-answers.ts";
import { AgentError } from "../protocol/agent-error.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
import { parseJsonInSteps } from "./json-in-steps.ts";
import type { Pause, StatusOptions } from "./report-budget.ts";

/** Maximum length of a line of a stream. */
const maxLineBytes = 8 << 20;

/** What a status may have for images and volumes, and for each sandbox. */
const [statusBaseBytes, statusBytesPerSandbox] = [512 * 1024, 16 * 1024];

/** Maximum of `spec.maxSandboxesPerPod`. */
const maxCapacity = 1000;

/** Maximum length of a status of an agent with room for so many sandboxes. */
const maxStatusBytes = (capacity: number): number => Math.min(statusBaseBytes + capacity * statusBytesPerSandbox, maxLineBytes);

/** The JSON of a text; undefined if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The result of a file operation: in the header `fileResultHeader` if the body is data, else in the body, which is read with `pause` between its
 * steps: the sandbox chooses the names of its files. Rejects with `InvalidAnswer`.
 */
export async function fileAnswerOf(content: Buffer, header: string | undefined, pause: Pause): Promise<FileResult> {
  if (header === undefined) return fileResultInSteps(await parseJsonInSteps(content.toString("utf8"), pause), pause);
  let text = "";
  try {
    text = decodeURIComponent(header);
  } catch {
    // Not JSON either.
  }
  return { ...fileResultOf(parseJson(text)), data: content };
}

/** The statuses of a stream, read within a budget. Throws `InvalidAnswer`. */
export async function* readStatuses(
  response: AsyncIterable<Buffer>,
  { budget, clock, capacity = maxCapacity }: StatusOptions,
  signal: AbortSignal,
): AsyncGenerator<AgentStatus> {
  for await (const line of readLines(response, maxStatusBytes(capacity))) {
    const status = await budget.read(async (pause) => agentStatusInSteps(await parseJsonInSteps(line, pause), pause), signal);
    const from = clock.monotonic();
    yield status;
    // What the caller did with it counts as well.
    budget.spend(clock.monotonic() - from);
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
async function* readLines(response: AsyncIterable<Buffer>, maxLength: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response) {
    // Only the chunk is searched: a line that arrives in many of them is copied once.
    const [first = "", ...lines] = decoder.decode(chunk, { stream: true }).split("\n");
    lines.unshift(rest + first);
    if (lines.some(({ length }) => length > maxLength))
      throw new AgentError("InvalidAnswer", `the agent sent a line above ${maxLength} bytes`);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield line;
  }
}

/** The output of a log. Throws `Unreachable` if it is broken off. */
export async function* readLogBytes(response: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  try {
    yield* response;
  } catch (error) {
    throw new AgentError("Unreachable", "the agent aborted the log; it is incomplete", { cause: error });
  }
}

/** The reports of a watch. Throws `Unreachable` if the stream ends without the line that says so. */
export async function* readFolderReports(response: AsyncIterable<Buffer>): AsyncGenerator<FolderReport> {
  for await (const text of readLines(response, maxLineBytes)) {
    const line = folderLineOf(parseJson(text));
    if ("hasEnded" in line) return;
    yield line;
  }
  throw new AgentError("Unreachable", "lost the connection to the agent; changes may be missing");
}
