import type { IncomingMessage } from "node:http";
import { AgentError } from "../protocol/agent-error.ts";

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
