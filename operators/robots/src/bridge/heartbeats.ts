import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { DeviceInfo } from "../api/device-info.ts";
import type { Robot } from "../api/robot.ts";
import { KeyedRates, type RateLimit } from "../broker/keyed-rates.ts";
import type { RegisterMessage } from "../protocol/messages.ts";
import { isOtherMachine } from "../placement/device-change.ts";

/** Heartbeats of a robot are written at most once in this time. Other changes are written immediately, up to {@link changeLimit}. */
export const writeIntervalMs = 30_000;

/** Maximum time between two writes of heartbeats of a connected robot, whose silence is noticed here. */
const maxConnectedWriteIntervalMs = 300_000;

/** Changes of a robot that are written immediately. Further ones are written together, {@link changeDelayMs} later. */
export const changeLimit: RateLimit = { burst: 10, perSecond: 0.1 };

/** Changes beyond {@link changeLimit}, and writes that did not fit the queue, wait this long. */
export const changeDelayMs = 10_000;

/** A connected robot that sends nothing for this long counts as disconnected: three heartbeat intervals. */
export const silenceTimeoutMs = 90_000;

/** The part of a Robot's status that the bridge owns. */
export type HeartbeatStatus = Pick<
  NonNullable<Robot["status"]>,
  "lastHeartbeatTime" | "heartbeatAccuracySeconds" | "connected" | "bootId" | "drivers" | "agentFeatures" | "deviceInfo"
>;

/** News about a robot. */
export interface HeartbeatUpdate {
  /** Whether the robot itself sent it. Unset for what the broker reports about the robot. */
  readonly isAlive?: boolean;
  readonly connected?: boolean;
  readonly bootId?: string;
  readonly drivers?: readonly string[];
  readonly agentFeatures?: readonly string[];
  readonly deviceInfo?: DeviceInfo;
}

/** What a registration or heartbeat says about a robot. */
export function heartbeatOf(
  kind: "register" | "heartbeat",
  { deviceInfo, bootId, drivers, features = [] }: RegisterMessage,
): HeartbeatUpdate {
  return {
    isAlive: true,
    ...(kind === "register" ? { connected: true, agentFeatures: features } : {}),
    ...(deviceInfo === undefined ? {} : { deviceInfo }),
    ...(bootId === undefined ? {} : { bootId }),
    ...(drivers === undefined ? {} : { drivers }),
  };
}

/** Options of {@link Heartbeats}. */
export interface HeartbeatsOptions {
  readonly clock: Clock;
  /** The stored status of a robot. */
  readonly statusOf: (robot: string) => DeepReadonly<Robot["status"]>;
  /** Whether the broker's messages arrive here. While they do not, silence means nothing. Default: always. */
  readonly isListening?: () => boolean;
  /** Writes the status. Must not throw, and the last write must win. Returns false if the write cannot be queued now. */
  readonly write: (robot: string, status: HeartbeatStatus) => boolean;
}

interface Entry {
  status: HeartbeatStatus;
  writtenAt: number;
  timer: Timer | undefined;
  /** Monotonic time at which `timer` fires. */
  dueAt: number;
  /** Monotonic time of the last message. */
  seenAt: number;
  silence: Timer | undefined;
}

/**
 * Coalesces heartbeats into few writes. A heartbeat within {@link writeIntervalMs} of the last write, or for a connected robot within about
 * {@link maxConnectedWriteIntervalMs}, is written when that time is over. A change of connection, machine or boot is written
 * immediately, and so is the silence of a connected robot. A robot that keeps changing exceeds {@link changeLimit} and is written less often.
 */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #changes: KeyedRates;
  #isStopped = false;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
    this.#changes = new KeyedRates(options.clock, changeLimit);
  }

  /** Applies news about a robot. */
  update(robot: string, update: HeartbeatUpdate): void {
    if (this.#isStopped) return;
    const { clock } = this.#options;
    const entry = this.#entryOf(robot);
    const { status } = entry;
    if (update.isAlive || update.connected === true) entry.seenAt = clock.monotonic();
    // A robot that sends messages is connected, whatever its last will said before.
    const connected = update.connected ?? (update.isAlive && status.connected === false ? true : status.connected);
    const isOther = isOtherMachine(status.deviceInfo, update.deviceInfo);
    const isUrgent =
      connected !== status.connected ||
      isOther ||
      (update.bootId !== undefined && update.bootId !== status.bootId) ||
      (update.drivers !== undefined && !jsonEquals(update.drivers, status.drivers)) ||
      (update.agentFeatures !== undefined && !jsonEquals(update.agentFeatures, status.agentFeatures));
    entry.status = {
      ...status,
      ...(update.isAlive ? { lastHeartbeatTime: new Date(clock.now()).toISOString() } : {}),
      ...(connected === undefined ? {} : { connected }),
      ...(connected === true && update.isAlive ? { heartbeatAccuracySeconds: maxConnectedWriteIntervalMs / 1000 } : {}),
      ...(update.bootId === undefined ? {} : { bootId: update.bootId }),
      ...(update.drivers === undefined ? {} : { drivers: [...update.drivers] }),
      ...(update.agentFeatures === undefined ? {} : { agentFeatures: [...update.agentFeatures] }),
      ...(update.deviceInfo === undefined ? {} : { deviceInfo: update.deviceInfo }),
    };
    if (connected === true && entry.silence === undefined) this.#watchSilence(robot, entry, silenceTimeoutMs);
    const intervalMs = connected === true ? connectedWriteIntervalMs(robot) : writeIntervalMs;
    const dueInMs = entry.writtenAt + intervalMs - clock.monotonic();
    if (isUrgent && !this.#changes.accept(robot)) this.#flushIn(changeDelayMs, robot, entry);
    else if (isUrgent || (update.isAlive && dueInMs <= 0)) this.#flush(robot, entry);
    else if (update.isAlive) this.#flushIn(dueInMs, robot, entry);
  }

  /** Notices the silence of a robot that is stored as connected, although it has sent nothing yet. */
  watch(robot: string): void {
    if (this.#isStopped) return;
    const entry = this.#entryOf(robot);
    if (entry.status.connected === true && entry.silence === undefined) this.#watchSilence(robot, entry, silenceTimeoutMs);
  }

  /** Handles that messages arrive again: every robot gets time to send one. */
  listening(): void {
    const now = this.#options.clock.monotonic();
    for (const entry of this.#entries.values()) entry.seenAt = now;
  }

  /** Forgets a robot that was deleted. */
  robotDeleted(robot: string): void {
    this.#entries.get(robot)?.timer?.cancel();
    this.#entries.get(robot)?.silence?.cancel();
    this.#entries.delete(robot);
  }

  /** Cancels all timers. News that arrives later is ignored. */
  stop(): void {
    this.#isStopped = true;
    for (const { timer, silence } of this.#entries.values()) {
      timer?.cancel();
      silence?.cancel();
    }
    this.#entries.clear();
  }

  #entryOf(robot: string): Entry {
    let entry = this.#entries.get(robot);
    if (entry === undefined) {
      const { clock, statusOf } = this.#options;
      const status = ownedStatus(statusOf(robot));
      const seenAt = clock.monotonic();
      entry = { status, writtenAt: Number.NEGATIVE_INFINITY, timer: undefined, dueAt: 0, seenAt, silence: undefined };
      this.#entries.set(robot, entry);
    }
    return entry;
  }

  #watchSilence(robot: string, entry: Entry, delayMs: number): void {
    const { clock, isListening = () => true } = this.#options;
    const onTimeout = (): void => {
      entry.silence = undefined;
      if (entry.status.connected !== true) return;
      const remainingMs = isListening() ? entry.seenAt + silenceTimeoutMs - clock.monotonic() : silenceTimeoutMs;
      if (remainingMs > 0) {
        this.#watchSilence(robot, entry, remainingMs);
        return;
      }
      entry.status = { ...entry.status, connected: false };
      this.#flush(robot, entry);
    };
    entry.silence = clock.setTimer(delayMs, onTimeout, { background: true });
  }

  /** Writes the status after a delay, unless it is written earlier. */
  #flushIn(delayMs: number, robot: string, entry: Entry): void {
    const { clock } = this.#options;
    const dueAt = clock.monotonic() + delayMs;
    if (entry.timer !== undefined && entry.dueAt <= dueAt) return;
    entry.timer?.cancel();
    entry.dueAt = dueAt;
    entry.timer = clock.setTimer(delayMs, () => this.#flush(robot, entry), { background: true });
  }

  #flush(robot: string, entry: Entry): void {
    if (this.#isStopped) return;
    entry.timer?.cancel();
    entry.timer = undefined;
    entry.writtenAt = this.#options.clock.monotonic();
    if (!this.#options.write(robot, entry.status)) this.#flushIn(changeDelayMs, robot, entry);
  }
}

/** Differs between robots, so that a fleet does not write at the same time. */
function connectedWriteIntervalMs(robot: string): number {
  let hash = 0;
  for (const character of robot) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 60;
  return maxConnectedWriteIntervalMs - hash * 1000;
}

function ownedStatus(stored: DeepReadonly<Robot["status"]>): HeartbeatStatus {
  return {
    ...(stored?.lastHeartbeatTime === undefined ? {} : { lastHeartbeatTime: stored.lastHeartbeatTime }),
    ...(stored?.connected === undefined ? {} : { connected: stored.connected }),
    ...(stored?.heartbeatAccuracySeconds === undefined ? {} : { heartbeatAccuracySeconds: stored.heartbeatAccuracySeconds }),
    ...(stored?.bootId === undefined ? {} : { bootId: stored.bootId }),
    ...(stored?.drivers === undefined ? {} : { drivers: [...stored.drivers] }),
    ...(stored?.agentFeatures === undefined ? {} : { agentFeatures: [...stored.agentFeatures] }),
    ...(stored?.deviceInfo === undefined ? {} : { deviceInfo: stored.deviceInfo as DeviceInfo }),
  };
}
