import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { DeviceInfo } from "../api/device-info.ts";
import type { Robot } from "../api/robot.ts";
import { isOtherMachine } from "./device-change.ts";

/** A robot's heartbeats are written at most once in this time; what changes otherwise is written at once. */
export const writeEveryMs = 30_000;

/** What the bridge owns of a Robot's status. */
export type HeartbeatStatus = Pick<NonNullable<Robot["status"]>, "lastHeartbeatTime" | "connected" | "bootId" | "deviceInfo">;

/** What is heard of a robot. */
export interface Heard {
  /** A message of the robot itself; absent for what the broker says about it. */
  readonly isAlive?: boolean;
  readonly connected?: boolean;
  readonly bootId?: string;
  readonly deviceInfo?: DeviceInfo;
}

/** Gathers what is heard of robots into few writes. */
export interface Heartbeats {
  heard(robot: string, news: Heard): void;
  /** The Robot is gone: what is known of it counts no more. */
  removed(robot: string): void;
  stop(): void;
}

interface Known {
  status: HeartbeatStatus;
  writtenAt: number;
  timer: Timer | undefined;
}

/**
 * Makes {@link Heartbeats}. A heartbeat within {@link writeEveryMs} of the last write is written when that time is over; a
 * change of connection, machine or boot at once. `write` must take the latest status and not reject.
 */
export function createHeartbeats(options: {
  readonly clock: Clock;
  readonly statusOf: (robot: string) => DeepReadonly<Robot["status"]>;
  readonly write: (robot: string, status: HeartbeatStatus) => void;
}): Heartbeats {
  const { clock, statusOf, write } = options;
  const known = new Map<string, Known>();

  const knownOf = (robot: string): Known => {
    let entry = known.get(robot);
    if (entry === undefined) {
      const stored = statusOf(robot);
      const status: HeartbeatStatus = {
        ...(stored?.lastHeartbeatTime === undefined ? {} : { lastHeartbeatTime: stored.lastHeartbeatTime }),
        ...(stored?.connected === undefined ? {} : { connected: stored.connected }),
        ...(stored?.bootId === undefined ? {} : { bootId: stored.bootId }),
        ...(stored?.deviceInfo === undefined ? {} : { deviceInfo: stored.deviceInfo as DeviceInfo }),
      };
      entry = { status, writtenAt: Number.NEGATIVE_INFINITY, timer: undefined };
      known.set(robot, entry);
    }
    return entry;
  };
  const flush = (robot: string, entry: Known): void => {
    entry.timer?.cancel();
    entry.timer = undefined;
    entry.writtenAt = clock.monotonic();
    write(robot, entry.status);
  };
  return {
    heard(robot, news) {
      const entry = knownOf(robot);
      const { status } = entry;
      // A robot that speaks is connected, whatever its last will said before.
      const connected = news.connected ?? (news.isAlive && status.connected === false ? true : status.connected);
      const isOther = isOtherMachine(status.deviceInfo, news.deviceInfo);
      const isUrgent =
        connected !== status.connected || isOther || (news.bootId !== undefined && news.bootId !== status.bootId);
      entry.status = {
        ...status,
        ...(news.isAlive ? { lastHeartbeatTime: new Date(clock.now()).toISOString() } : {}),
        ...(connected === undefined ? {} : { connected }),
        ...(news.bootId === undefined ? {} : { bootId: news.bootId }),
        ...(isOther && news.deviceInfo !== undefined ? { deviceInfo: news.deviceInfo } : {}),
      };
      const dueIn = entry.writtenAt + writeEveryMs - clock.monotonic();
      if (isUrgent || (news.isAlive && dueIn <= 0)) flush(robot, entry);
      else if (news.isAlive && entry.timer === undefined) {
        entry.timer = clock.setTimer(dueIn, () => flush(robot, entry), { background: true });
      }
    },
    removed(robot) {
      known.get(robot)?.timer?.cancel();
      known.delete(robot);
    },
    stop() {
      for (const entry of known.values()) entry.timer?.cancel();
      known.clear();
    },
  };
}
