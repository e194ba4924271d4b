import { isJsonObject } from "@keelson/api-machinery";
import { readJson, writeJson } from "../json-file.ts";
import { areSameCertificates, certificateProblem, type Certificates } from "./certificates.ts";

/** The certificates that a program accepted last. */
export interface LastAccepted {
  readonly certificates: Certificates;
  /** Whether the last start with them failed. */
  readonly hasFailed: boolean;
}

/** The certificates that a program accepted last, in a file on its volume. They are replaced, but never deleted. */
export class AcceptedCertificates {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** Undefined if there are none, or none that can be used. */
  async read(): Promise<LastAccepted | undefined> {
    const value = await readJson(this.#file).catch(() => undefined);
    if (!isJsonObject(value)) return undefined;
    const { authorities, certificate, key, hasFailed } = value;
    if (typeof authorities !== "string" || typeof certificate !== "string" || typeof key !== "string") return undefined;
    const certificates = { authorities, certificate, key };
    return certificateProblem(certificates) === undefined ? { certificates, hasFailed: hasFailed === true } : undefined;
  }

  write({ authorities, certificate, key }: Certificates): Promise<void> {
    return writeJson(this.#file, { authorities, certificate, key });
  }

  /** Records a failed start with `used`. */
  async recordFailure(used: Certificates): Promise<void> {
    const last = await this.read();
    if (last === undefined) return;
    const hasFailed = areSameCertificates(last.certificates, used);
    if (hasFailed !== last.hasFailed) await writeJson(this.#file, { ...last.certificates, hasFailed });
  }
}
