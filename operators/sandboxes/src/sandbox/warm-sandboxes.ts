import { existsSync, realpathSync } from "node:fs";
import type { Driver, WarmStatus } from "@keelson/execution";
import type { AgentSandbox } from "../protocol/protocol.ts";
import { hostImages, type ImageStore, type ReadyImage } from "./image-store.ts";
import { type SandboxProgramOptions, toProgramSpec } from "./sandbox-program.ts";

/** Numbers of warm slots of an agent. */
export interface WarmCounts {
  /** Slots for any image. */
  readonly shells: number;
  /** Slots for each of the images that were used last. */
  readonly perImage: number;
}

/** Options of {@link WarmSandboxes}. */
export interface WarmSandboxesOptions {
  readonly program: SandboxProgramOptions;
  readonly images: ImageStore;
  readonly counts: WarmCounts;
  /** Directory of the unpacked images. */
  readonly imageDir: string;
}

/** Images with their own slots. */
const maxImages = 4;

/** A sandbox without anything of its own: what it has in common with others is prepared in advance. */
const template: AgentSandbox = { sandboxId: "template", claimUid: "", claimName: "", namespace: "", image: "host" };

/**
 * Keeps slots ready for the sandboxes of an agent: for any image, and for the images that were used last. Sandboxes with a network, or with
 * a disk limit other than the agent's default, start cold.
 */
export class WarmSandboxes {
  readonly #options: WarmSandboxesOptions;
  /** Roots of the images that were used last, the latest first. */
  #recent: readonly (string | undefined)[];

  constructor(options: WarmSandboxesOptions) {
    this.#options = options;
    const names = options.images.list();
    const found = names.map((name) => options.images.find(name)).filter((image) => image !== undefined);
    this.#recent = [...new Set(found.map(({ root }) => root))].slice(0, maxImages);
    this.#keep();
  }

  /** Notes that an image is used. */
  use({ root }: ReadyImage): void {
    if (this.#recent[0] === root) return;
    const isKnown = this.#recent.includes(root);
    this.#recent = [root, ...this.#recent.filter((each) => each !== root)].slice(0, maxImages);
    if (!isKnown) this.#keep();
  }

  status(): WarmStatus | undefined {
    const { driver } = this.#options.program;
    if (driver.warm !== undefined) return driver.warm.status();
    const { shells } = this.#options.counts;
    return { ...noSlots, shells: { desired: shells, ready: 0 }, problem: unsupported(driver) };
  }

  #keep(): void {
    const { program, counts, imageDir } = this.#options;
    const host = hostImages.find("host");
    if (host === undefined) return;
    const { isolation, limits } = toProgramSpec(template, host, program);
    program.driver.warm?.keep({
      template: { ...(isolation !== undefined && { isolation }), ...(limits !== undefined && { limits }) },
      ...counts,
      roots: [realpathSync(imageDir)],
      // An image may have been removed.
      images: this.#recent.filter((root) => root === undefined || existsSync(root)),
    });
  }
}

const noSlots = {
  shells: { desired: 0, ready: 0 },
  images: { desired: 0, ready: 0 },
  starts: { cold: 0, shell: 0, image: 0 },
  refills: { count: 0, totalMs: 0 },
} as const;

const unsupported = ({ name }: Driver): string =>
  name === "bubblewrap" ? "warm slots require an agent that runs as root" : `driver ${name} has no warm slots`;
