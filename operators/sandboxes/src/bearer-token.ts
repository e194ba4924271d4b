import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** The secret in a file that only its owner can read; made when it is not there. */
export async function ensureToken(path: string): Promise<string> {
  const present = await readFile(path, "utf8").catch(() => "");
  if (present.trim() !== "") return present.trim();
  const token = randomBytes(32).toString("hex");
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(`${path}.new`, `${token}\n`, { mode: 0o600 });
  await rename(`${path}.new`, path);
  return token;
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Whether the value of an Authorization header carries this token; takes the same time whatever is wrong. */
export function hasToken(header: string | null | undefined, token: string): boolean {
  const given = /^Bearer (.+)$/i.exec(header ?? "")?.[1] ?? "";
  return timingSafeEqual(digest(given), digest(token)) && given !== "";
}
