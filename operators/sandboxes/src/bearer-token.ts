import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { writeFileAtomic } from "@keelson/execution/files";

/** Reads a token from a file that only its owner can read; creates the file if it is missing. */
export async function ensureToken(path: string): Promise<string> {
  const present = await readFile(path, "utf8").catch(() => "");
  if (present.trim() !== "") return present.trim();
  const token = randomBytes(32).toString("hex");
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomic(path, `${token}\n`, { durable: true });
  return token;
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The token of an Authorization header, if it has one. */
export function bearerTokenOf(header: string | null | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(header ?? "")?.[1];
}

/** Whether an Authorization header carries this token. Compares in constant time. */
export function hasToken(header: string | null | undefined, token: string): boolean {
  const presented = bearerTokenOf(header) ?? "";
  return timingSafeEqual(digest(presented), digest(token)) && presented !== "";
}
