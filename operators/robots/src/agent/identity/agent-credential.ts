import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { parseJsonObject } from "@keelson/api-machinery";
import { openSealedText, sealText, writeFileAtomic } from "@keelson/execution/files";
import { sha256Hex } from "../../identity/secret.ts";

/**
 * An agent's own credential. The agent generates it, and registers its digest when it joins with the join token. Once the server has bound
 * the robot to it, the agent connects with the credential instead of the token.
 */
export class AgentCredential {
  readonly #file: string;
  readonly #secret: string;
  #isBound: boolean;
  /** Whether the next connection uses the credential. */
  #usesCredential: boolean;

  private constructor(file: string, secret: string, isBound: boolean) {
    this.#file = file;
    this.#secret = secret;
    this.#isBound = isBound;
    this.#usesCredential = isBound;
  }

  /**
   * Reads the credential from `file`, or generates one and writes it there, readable by its owner only. A damaged file is moved aside and
   * passed to `onDamaged`: an administrator has to admit the agent with its new credential.
   */
  static async open(file: string, random: () => string, onDamaged: (aside: string) => void): Promise<AgentCredential> {
    const stored = await read(file);
    if (stored !== undefined && stored !== "damaged") return new AgentCredential(file, stored.secret, stored.isBound);
    if (stored === "damaged") {
      const aside = `${file}.damaged`;
      await rm(aside, { recursive: true, force: true });
      await rename(file, aside);
      onDamaged(aside);
    }
    const credential = new AgentCredential(file, random(), false);
    await credential.#save();
    return credential;
  }

  /** SHA-256 (hex) of the credential. */
  get digest(): string {
    return sha256Hex(this.#secret);
  }

  /** The password for the next connection. */
  password(joinToken: string): string {
    return this.#usesCredential ? this.#secret : joinToken;
  }

  /** Handles that the broker rejected the password: the next connection tries the other one, because the Robot may have been recreated. */
  rejected(): void {
    this.#usesCredential = this.#isBound && !this.#usesCredential;
  }

  /** Handles that the server has bound the robot to this credential. */
  async bound(): Promise<void> {
    this.#usesCredential = true;
    if (this.#isBound) return;
    this.#isBound = true;
    await this.#save();
  }

  async #save(): Promise<void> {
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    const content = JSON.stringify({ secret: this.#secret, isBound: this.#isBound });
    await writeFileAtomic(this.#file, sealText(content), { durable: true });
  }
}

async function read(file: string): Promise<{ readonly secret: string; readonly isBound: boolean } | "damaged" | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : "damaged";
  }
  const { secret, isBound } = parseJsonObject(openSealedText(text) ?? "") ?? {};
  return typeof secret === "string" && secret.length >= 32 ? { secret, isBound: isBound === true } : "damaged";
}
