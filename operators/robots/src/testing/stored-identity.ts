import { readFileSync } from "node:fs";
import { openSealedText } from "@keelson/execution/files";

/** The identity of a robot that has joined, as it is stored. */
export interface StoredTestIdentity {
  readonly joined: { readonly key: string; readonly certificate: string; readonly authority: string };
}

/** Reads the file of a robot's identity, as a thief of its disk would. */
export function readStoredIdentity(file: string): StoredTestIdentity {
  return JSON.parse(openSealedText(readFileSync(file, "utf8")) ?? "") as StoredTestIdentity;
}
