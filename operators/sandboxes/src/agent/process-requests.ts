import type { IncomingMessage, ServerResponse } from "node:http";
import { encodeFrame, execChannels } from "../protocol/exec-frames.ts";
import type { OutputPart } from "../processes/output-buffer.ts";
import { ProcessError } from "../processes/process-error.ts";
import { parseProcessOperation, type ProcessStatus } from "../processes/process-operations.ts";
import type { ProcessHost, SandboxProcesses } from "../processes/sandbox-processes.ts";
import { asRequestError, body, RequestError, send } from "./agent-http.ts";

const statusByCode: Readonly<Record<ProcessError["code"], number>> = {
  NotFound: 404,
  Conflict: 409,
  TooMany: 429,
  Invalid: 400,
};

function asAnswer(error: unknown): never {
  if (error instanceof ProcessError) throw new RequestError(statusByCode[error.code], error.message);
  return asRequestError(error);
}

/** Runs the operation of a request on the processes of a sandbox. */
export async function answerProcesses(
  request: IncomingMessage,
  response: ServerResponse,
  host: ProcessHost,
  processes: SandboxProcesses,
): Promise<void> {
  const operation = parseProcessOperation(await body(request));
  if (operation === undefined) throw new RequestError(400, "the body must be a process operation");
  send(response, 200, await processes.run(host, operation).catch(asAnswer));
}

/** The output that a request follows, as frames. **Errors**: `RequestError` before the first frame. */
export async function openProcessOutput(
  query: URLSearchParams,
  host: ProcessHost,
  processes: SandboxProcesses,
): Promise<(signal: AbortSignal) => AsyncIterable<Buffer>> {
  const offset = Number(query.get("offset") ?? "0");
  if (!Number.isSafeInteger(offset) || offset < 0) throw new RequestError(400, "offset: must be a number of bytes");
  const follow = await processes.find(host, query.get("processId") ?? "").catch(asAnswer);
  return (signal) => framesOf(follow.output(offset, signal), () => follow.status, signal);
}

async function* framesOf(
  parts: AsyncIterable<OutputPart>,
  status: () => ProcessStatus,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for await (const part of parts) {
    yield part.kind === "gap"
      ? encodeFrame(execChannels.gap, Buffer.from(String(part.lostBytes)))
      : encodeFrame(execChannels[part.kind], part.data);
  }
  if (!signal.aborted) yield encodeFrame(execChannels.exit, Buffer.from(JSON.stringify(status())));
}
