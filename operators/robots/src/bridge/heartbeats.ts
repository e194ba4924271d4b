import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { DeviceInfo } from "../api/device-info.ts";
import type { Robot } from "../api/robot.ts";
import { isOtherMachine } from "../placement/device-change.ts";

/** Heartbeats of a robot are written at most once in this time. Other changes are written immediately. */
export const writeIntervalMs = 30_000;

/** The part of a Robot's status that the bridge owns. */
export type HeartbeatStatus = Pick<
  NonNullable<Robot["status"]>,
  "lastHeartbeatTime" | "connected" | "bootId" | "drivers" | "agentFeatures" | "deviceInfo"
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

/** Options of {@link Heartbeats}. */
export interface HeartbeatsOptions {
  readonly clock: Clock;
  /** The stored status of a robot. */
  readonly statusOf: (robot: string) => DeepReadonly<Robot["status"]>;
  /** Writes the status. Must not throw, and the last write must win. */
  readonly write: (robot: string, status: HeartbeatStatus) => void;
}

interface Entry {
  status: HeartbeatStatus;
  writtenAt: number;
  timer: Timer | undefined;
}

/**
 * Coalesces heartbeats into few writes. A heartbeat within {@link writeIntervalMs} of the last write is written when that time is
 * over. A change of connection, machine or boot is written immediately.
 */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  /** Applies news about a robot. */
  update(robot: string, update: HeartbeatUpdate): void {
    const { clock } = this.#options;
    const entry = this.#entryOf(robot);
    const { status } = entry;
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
      ...(update.bootId === undefined ? {} : { bootId: update.bootId }),
      ...(update.drivers === undefined ? {} : { drivers: [...update.drivers] }),
      ...(update.agentFeatures === undefined ? {} : { agentFeatures: [...update.agentFeatures] }),
      ...(update.deviceInfo === undefined ? {} : { deviceInfo: update.deviceInfo }),
    };
    const dueInMs = entry.writtenAt + writeIntervalMs - clock.monotonic();
    if (isUrgent || (update.isAlive && dueInMs <= 0)) this.#flush(robot, entry);
    else if (update.isAlive && entry.timer === undefined) {
      entry.timer = clock.setTimer(dueInMs, () => this.#flush(robot, entry), { background: true });
    }
  }

  /** Forgets a robot that was deleted. */
  robotDeleted(robot: string): void {
    this.#entries.get(robot)?.timer?.cancel();
    this.#entries.delete(robot);
  }

  stop(): void {
    for (const entry of this.#entries.values()) entry.timer?.cancel();
    this.#entries.clear();
  }

  #entryOf(robot: string): Entry {
    let entry = this.#entries.get(robot);
    if (entry === undefined) {
      entry = { status: ownedStatus(this.#options.statusOf(robot)), writtenAt: Number.NEGATIVE_INFINITY, timer: undefined };
      this.#entries.set(robot, entry);
    }
    return entry;
  }

  #flush(robot: string, entry: Entry): void {
    entry.timer?.cancel();
    entry.timer = undefined;
    entry.writtenAt = this.#options.clock.monotonic();
    this.#options.write(robot, entry.status);
  }
}

function ownedStatus(stored: DeepReadonly<Robot["status"]>): HeartbeatStatus {
  return {
    ...(stored?.lastHeartbeatTime === undefined ? {} : { lastHeartbeatTime: stored.lastHeartbeatTime }),
    ...(stored?.connected === undefined ? {} : { connected: stored.connected }),
    ...(stored?.bootId === undefined ? {} : { bootId: stored.bootId }),
    ...(stored?.drivers === undefined ? {} : { drivers: [...stored.drivers] }),
    ...(stored?.agentFeatures === undefined ? {} : { agentFeatures: [...stored.agentFeatures] }),
    ...(stored?.deviceInfo === undefined ? {} : { deviceInfo: stored.deviceInfo as DeviceInfo }),
  };
}
