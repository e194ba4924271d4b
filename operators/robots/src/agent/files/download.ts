import { constants } from "node:fs";
import { type FileHandle, open, readlink, rm, stat } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Clock } from "@keelson/api-machinery/time";
import { openBeneath } from "@keelson/execution/files";
import { ignoreMissing } from "../../identity/ignore-missing.ts";
import { RobotsError } from "../../robots-error.ts";
import { type ArtifactPolicy, isAllowedSource } from "../policy/robot-policy.ts";
import { describeUrl } from "./artifact.ts";

/** Maximum time without data. */
const stallTimeoutMs = 30_000;

/** Maximum number of redirects. */
const maxRedirects = 5;

/** Options of {@link downloadTo}. */
export interface DownloadOptions {
  readonly policy: ArtifactPolicy;
  readonly clock: Clock;
  /** Continue what is in the file already: the caller verifies the result by its digest. */
  readonly resumes: boolean;
  readonly signal: AbortSignal;
}

/** A transfer failed in a way that may pass: the connection broke, the server is overloaded. */
export class TransferInterrupted extends Error {
  override readonly name = "TransferInterrupted";
}

/**
 * Writes the content of a URL to a file. What was received stays in the file if the transfer is interrupted.
 *
 * **Errors**: {@link TransferInterrupted}; {@link RobotsError} with the code `ArtifactForbidden` for a redirect that the policy forbids,
 * and `ArtifactFailed` for everything else, such as 404 or a file that is too large.
 */
export async function downloadTo(file: string, from: URL, options: DownloadOptions): Promise<void> {
  if (from.protocol === "file:") {
    await copyLocalFile(file, from, options);
    return;
  }
  const startBytes = options.resumes ? ((await ignoreMissing(stat(file)))?.size ?? 0) : 0;
  const response = await request(from, startBytes, options);
  try {
    await receive(file, from, response, startBytes, options);
  } finally {
    response.destroy();
  }
}

async function receive(
  file: string,
  from: URL,
  response: IncomingMessage,
  startBytes: number,
  { policy, clock, signal }: DownloadOptions,
): Promise<void> {
  const { statusCode = 0 } = response;
  if (statusCode === 416 && startBytes > 0) {
    // What was received before does not belong to the file of today.
    await rm(file, { force: true });
    throw new TransferInterrupted(`${describeUrl(from)}: the server cannot continue the download`);
  }
  const message = `${describeUrl(from)}: the server answered ${statusCode}`;
  if (statusCode === 408 || statusCode === 429 || statusCode >= 500) throw new TransferInterrupted(message);
  const isPartial = statusCode === 206 && startOf(response) === startBytes;
  if (statusCode !== 200 && !isPartial) throw new RobotsError("ArtifactFailed", message);
  const begin = isPartial ? startBytes : 0;
  const length = Number(response.headers["content-length"] ?? Number.NaN);
  const limit = limitOf(from, policy);
  if (begin + length > policy.maxBytes) throw limit();
  const output = await open(file, isPartial ? "r+" : "w", 0o600);
  let end = begin;
  try {
    for await (const chunk of withinStallTimeout(response, from, clock, signal)) {
      if (end + chunk.length > policy.maxBytes) throw limit();
      await writeAll(output, chunk, end);
      end += chunk.length;
    }
  } catch (error) {
    // A full disk must not stay full, and a file that is too large is not continued.
    if (error instanceof RobotsError) await rm(file, { force: true });
    throw error;
  } finally {
    await output.close();
  }
  if (!Number.isNaN(length) && end - begin < length) {
    throw new TransferInterrupted(`${describeUrl(from)}: the connection ended after ${end} bytes`);
  }
}

async function writeAll(output: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  try {
    for (let at = 0; at < chunk.length; ) {
      at += (await output.write(chunk, at, chunk.length - at, position + at)).bytesWritten;
    }
  } catch (error) {
    throw new RobotsError("ArtifactFailed", `could not store the download: ${textOf(error)}`, { cause: error });
  }
}

const limitOf =
  (from: URL, { maxBytes }: ArtifactPolicy) =>
  (): RobotsError =>
    new RobotsError("ArtifactFailed", `${describeUrl(from)}: larger than the robot's policy allows (${maxBytes} bytes)`);

/** The chunks of a response. Throws if none arrives for {@link stallTimeoutMs}. */
async function* withinStallTimeout(
  response: IncomingMessage,
  from: URL,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const onStall = (): void => void response.destroy(new TransferInterrupted(`${describeUrl(from)}: no data for 30 seconds`));
  const onAbort = (): void => void response.destroy(new TransferInterrupted("the download was cancelled"));
  let timer = clock.setTimer(stallTimeoutMs, onStall);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    signal.throwIfAborted();
    for await (const chunk of response) {
      timer.cancel();
      timer = clock.setTimer(stallTimeoutMs, onStall);
      yield chunk as Buffer;
    }
  } catch (error) {
    throw error instanceof TransferInterrupted ? error : interrupted(from, error);
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const interrupted = (from: URL, error: unknown): TransferInterrupted =>
  new TransferInterrupted(`${describeUrl(from)}: ${textOf(error)}`, { cause: error });

/** First byte of a partial response. */
function startOf({ headers }: IncomingMessage): number {
  const start = /^bytes (\d+)-/.exec(headers["content-range"] ?? "")?.[1];
  return start === undefined ? Number.NaN : Number(start);
}

/** Sends a request and follows redirects; each must be allowed by the policy. */
async function request(from: URL, startBytes: number, options: DownloadOptions): Promise<IncomingMessage> {
  let url = from;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const response = await requestOnce(url, startBytes, options);
    const { location } = response.headers;
    if (![301, 302, 303, 307, 308].includes(response.statusCode ?? 0)) return response;
    response.destroy();
    if (location === undefined || !URL.canParse(location, url.href)) {
      throw new RobotsError("ArtifactFailed", `${describeUrl(url)}: the server responded with an invalid redirect`);
    }
    const next = new URL(location, url);
    const isHttp = next.protocol === "https:" || (next.protocol === "http:" && url.protocol === "http:");
    if (!isHttp || !isAllowedSource(options.policy, next)) {
      throw new RobotsError(
        "ArtifactForbidden",
        `${describeUrl(url)}: redirects to ${describeUrl(next)}, which is not allowed`,
      );
    }
    url = next;
  }
  throw new RobotsError("ArtifactFailed", `${describeUrl(from)}: more than ${maxRedirects} redirects`);
}

async function requestOnce(url: URL, startBytes: number, { clock, signal }: DownloadOptions): Promise<IncomingMessage> {
  // Most robots never fetch an artifact.
  const { get } = url.protocol === "https:" ? await import("node:https") : await import("node:http");
  const headers = {
    "user-agent": "keelson-robot-agent",
    "accept-encoding": "identity",
    ...(startBytes > 0 ? { range: `bytes=${startBytes}-` } : {}),
  };
  return await new Promise((resolve, reject) => {
    // Its own connection: downloads are rare, and a pooled one may be stale.
    const sent = get(url, { headers, agent: false, signal });
    const timer = clock.setTimer(stallTimeoutMs, () => void sent.destroy(new Error("no response for 30 seconds")));
    sent.once("response", (response) => {
      timer.cancel();
      resolve(response);
    });
    sent.on("error", (error) => {
      timer.cancel();
      reject(interrupted(url, error));
    });
  });
}

/** Copies a regular file. Links may not lead out of the allowed directories. After an error, no partial file remains. */
async function copyLocalFile(file: string, from: URL, { policy, signal }: DownloadOptions): Promise<void> {
  await using source = await openLocalFile(from, policy);
  try {
    await using output = await open(file, "w", 0o600);
    let end = 0;
    for await (const chunk of source.createReadStream({ autoClose: false })) {
      signal.throwIfAborted();
      if (end + chunk.length > policy.maxBytes) throw limitOf(from, policy)();
      await writeAll(output, chunk, end);
      end += chunk.length;
    }
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
}

async function openLocalFile(from: URL, policy: ArtifactPolicy): Promise<FileHandle> {
  try {
    // An O_PATH descriptor: its path is checked before the file is opened, and nothing can replace it in between.
    using found = openBeneath("/", fileURLToPath(from).slice(1), { kind: "file", absoluteLinks: "beneath" });
    const real = await readlink(found.path);
    if (!isAllowedSource(policy, pathToFileURL(real))) {
      throw new RobotsError(
        "ArtifactForbidden",
        `${describeUrl(from)}: leads to ${real}, which the robot's policy does not allow`,
      );
    }
    if (found.stats.size > policy.maxBytes) throw limitOf(from, policy)();
    return await open(found.path, constants.O_RDONLY);
  } catch (error) {
    if (error instanceof RobotsError) throw error;
    throw new RobotsError("ArtifactFailed", `${describeUrl(from)}: ${textOf(error)}`, { cause: error });
  }
}
