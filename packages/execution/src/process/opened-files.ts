import { closeSync, openSync } from "node:fs";

/** Descriptors that are open while a shim starts. */
export class OpenedFiles {
  readonly #descriptors: number[] = [];

  open(path: string, flags: string): number {
    return this.add(openSync(path, flags, 0o640));
  }

  add(descriptor: number): number {
    this.#descriptors.push(descriptor);
    return descriptor;
  }

  close(): void {
    for (const descriptor of this.#descriptors) closeSync(descriptor);
  }
}
