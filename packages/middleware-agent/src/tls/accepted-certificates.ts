import { rm } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { readJson, writeJson } from "../json-file.ts";
import { certificateProblem, type Certificates } from "./certificates.ts";

/** The certificates that a program accepted last, in a file on its volume. */
export class AcceptedCertificates {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** Undefined if there are none, or none that can be used. */
  async read(): Promise<Certificates | undefined> {
    const value = await readJson(this.#file).catch(() => undefined);
    if (!isJsonObject(value)) return undefined;
    const { authorities, certificate, key } = value;
    if (typeof authorities !== "string" || typeof certificate !== "string" || typeof key !== "string") return undefined;
    const read = { authorities, certificate, key };
    return certificateProblem(read) === undefined ? read : undefined;
  }

  write({ authorities, certificate, key }: Certificates): Promise<void> {
    return writeJson(this.#file, { authorities, certificate, key });
  }

  remove(): Promise<void> {
    return rm(this.#file, { force: true });
  }
}
