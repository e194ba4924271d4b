import type { HeapElement } from "./binary-heap.ts";
import type { ReadyItem } from "./ready-items.ts";

/** An item that is queued, in progress, or both. */
export class QueueEntry<T> implements HeapElement, ReadyItem<QueueEntry<T>> {
  readonly id: string;
  readonly group: string;
  value: T;
  priority = 0;
  /** Order within a priority and group: by when the item became ready. */
  order = 0;
  /** `idle`: in progress only. `locked`: ready, but still in progress. */
  state: "idle" | "waiting" | "ready" | "locked" = "idle";
  /** When a waiting item becomes ready. */
  dueAt = 0;
  readyAt = 0;
  /** Index in the list of items in progress; -1 if it is not in progress. */
  progressIndex = -1;
  startedAt = 0;
  heapIndex = -1;
  lane: ReadyItem<QueueEntry<T>>["lane"];
  previous: QueueEntry<T> | undefined;
  next: QueueEntry<T> | undefined;

  constructor(id: string, value: T, group: string) {
    this.id = id;
    this.group = group;
    this.value = value;
  }
}
