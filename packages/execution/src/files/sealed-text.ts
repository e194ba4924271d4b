import { createHash } from "node:crypto";

/** A line of JSON, followed by a line with its digest, so that damage is detected. `json` must not contain a line break. */
export function sealText(json: string): string {
  return `${json}\n${digestLine(json)}\n`;
}

/**
 * The JSON of a sealed text. A text of one line, as written by earlier versions, is returned as it is. Undefined if the text is damaged.
 */
export function openSealedText(text: string): string | undefined {
  const [json = "", digest = "", ...rest] = text.split("\n");
  if (rest.some((line) => line !== "")) return undefined;
  return digest === "" || digest === digestLine(json) ? json : undefined;
}

const digestLine = (json: string): string => `sha256:${createHash("sha256").update(json).digest("hex")}`;
