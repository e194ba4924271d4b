import { isQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";

/** What is free on the file system that holds the Pods, as signals of the kubelet: bytes, and files. */
export const diskSignals = ["nodefs.available", "nodefs.inodesFree"] as const;

/** One of {@link diskSignals}. */
export type DiskSignal = (typeof diskSignals)[number];

/** The smallest amount that must stay free. With both fields, the smaller one counts. */
export interface Threshold {
  /** A share of the capacity, 0 to 1. */
  readonly share?: number;
  /** Bytes or files. */
  readonly amount?: number;
}

/** The thresholds of a node. A signal without one has no effect. */
export type Thresholds = Readonly<Partial<Record<DiskSignal, Threshold>>>;

/** When a node is low on disk space. */
export interface EvictionSettings {
  readonly thresholds: Thresholds;
  /** How long the disk must stay clear of all thresholds before the node reports that it has enough space. */
  readonly transitionMs: number;
}

/** A file system: bytes and files that are free for users, and its capacity. A file system without a fixed number of files has 0 files. */
export type DiskSpace = Readonly<Record<DiskSignal, { readonly free: number; readonly capacity: number }>>;

/** A threshold that is met. */
export interface MetThreshold {
  readonly signal: DiskSignal;
  readonly threshold: number;
  readonly free: number;
}

/**
 * The shares are the kubelet's. The upper bounds keep a node usable on the disk of a workstation, of which a tenth is rarely free: what Pods
 * write between two measurements fits in.
 */
export const defaultThresholds: Thresholds = {
  "nodefs.available": { share: 0.1, amount: 2 ** 30 },
  "nodefs.inodesFree": { share: 0.05, amount: 100_000 },
};

/** The kubelet's transition period, and {@link defaultThresholds}. */
export const defaultEviction: EvictionSettings = { thresholds: defaultThresholds, transitionMs: 300_000 };

/** The amount of a threshold on a file system. */
export function thresholdAmount({ share, amount }: Threshold, capacity: number): number {
  return Math.min(share === undefined ? Number.POSITIVE_INFINITY : share * capacity, amount ?? Number.POSITIVE_INFINITY);
}

/** The thresholds that are met, space first. */
export function metThresholds(thresholds: Thresholds, space: DiskSpace): readonly MetThreshold[] {
  return diskSignals.flatMap((signal) => {
    const { free, capacity } = space[signal];
    const threshold = thresholds[signal];
    if (threshold === undefined || capacity === 0) return [];
    const amount = thresholdAmount(threshold, capacity);
    return free < amount ? [{ signal, threshold: amount, free }] : [];
  });
}

/**
 * Parses a value of the kubelet's flag `--eviction-hard`: `nodefs.available<10%,nodefs.inodesFree<5%`. `0` or `0%` disables a signal. Signals
 * that are not named keep their default. Returns what is wrong with an invalid value.
 */
export function parseThresholds(text: string): Thresholds | { readonly problem: string } {
  const thresholds: Partial<Record<DiskSignal, Threshold>> = { ...defaultThresholds };
  const named = new Set<string>();
  for (const part of text.split(",")) {
    const [name = "", value, ...rest] = part.split("<").map((each) => each.trim());
    const signal = diskSignals.find((each) => each === name);
    if (signal === undefined) {
      return { problem: `${JSON.stringify(name)} is not a known signal; must be one of ${diskSignals.join(", ")}` };
    }
    if (named.has(signal)) return { problem: `${signal} is specified more than once` };
    named.add(signal);
    const threshold = value === undefined || rest.length > 0 ? undefined : parseThreshold(value);
    if (threshold === undefined) {
      return { problem: `${JSON.stringify(part)} must be a signal, "<", and a percentage or a quantity, such as ${signal}<5%` };
    }
    if (threshold === "disabled") Reflect.deleteProperty(thresholds, signal);
    else thresholds[signal] = threshold;
  }
  return thresholds;
}

function parseThreshold(text: string): Threshold | "disabled" | undefined {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(text);
  if (percent !== null) {
    const share = Number(percent[1]) / 100;
    if (share >= 1) return undefined;
    return share === 0 ? "disabled" : { share };
  }
  const amount = isQuantity(text) ? quantityToBytes(text) : Number.NaN;
  if (!(amount >= 0)) return undefined;
  return amount === 0 ? "disabled" : { amount };
}
