import { BinaryHeap, type HeapElement } from "./binary-heap.ts";

/** An item of {@link ReadyItems}. Only `ReadyItems` writes `lane`, `previous` and `next`. */
export interface ReadyItem<E> {
  /** Must not change while the item is in the list. */
  readonly priority: number;
  /** Position within a priority and group. Must not change while the item is in the list. */
  readonly order: number;
  /** Groups of a priority take turns. Must not change while the item is in the list. */
  readonly group: string;
  lane: Lane<E> | undefined;
  previous: E | undefined;
  next: E | undefined;
}

/** The items of one priority and group, as a linked list in order. Lanes of a priority form a ring. */
class Lane<E> {
  readonly group: string;
  readonly bucket: Bucket<E>;
  first: E | undefined;
  last: E | undefined;
  previous: Lane<E> = this;
  next: Lane<E> = this;

  /** Joins the ring of `bucket` as the last lane to have its turn. */
  constructor(group: string, bucket: Bucket<E>) {
    this.group = group;
    this.bucket = bucket;
    const { current } = bucket;
    if (current === undefined) bucket.current = this;
    else {
      this.next = current;
      this.previous = current.previous;
      this.previous.next = this;
      current.previous = this;
    }
    bucket.lanes.set(group, this);
  }

  /** Leaves the ring. */
  remove(): void {
    const { bucket } = this;
    bucket.lanes.delete(this.group);
    this.previous.next = this.next;
    this.next.previous = this.previous;
    if (bucket.current === this) bucket.current = this.next === this ? undefined : this.next;
  }
}

/** The lanes of one priority. */
interface Bucket<E> extends HeapElement {
  readonly priority: number;
  readonly lanes: Map<string, Lane<E>>;
  /** The lane whose turn it is. If the bucket is empty, its last lane, or undefined. */
  current: Lane<E> | undefined;
}

/** The lane of a group. It joins the ring if the group has none. */
function laneOf<E>(bucket: Bucket<E>, group: string): Lane<E> {
  const { current } = bucket;
  if (current?.group === group) return current;
  // Only the last lane of a bucket can be empty. With others it would take turns.
  if (current !== undefined && current.first === undefined) current.remove();
  return bucket.lanes.get(group) ?? new Lane<E>(group, bucket);
}

/**
 * Items by priority. Within a priority, groups take turns, and each hands out its items by order, so that a group with many items delays an
 * item of another group by one item only. Adding the newest item, removing any item and taking the first one take constant time, independent
 * of the number of items and groups:
 *
 * ```text
 *   heap of priorities     5         0         -100
 *                          |         |          |
 *   ring of groups         x       x - y        x
 *                          |       |   |        |
 *   linked lists           a       b   d        f
 *                                  c   e
 * ```
 */
export class ReadyItems<E extends ReadyItem<E>> {
  readonly #buckets = new Map<number, Bucket<E>>();
  readonly #heap = new BinaryHeap<Bucket<E>>((a, b) => a.priority > b.priority);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds an item. Takes constant time if it is the newest of its group, and one step for each newer one otherwise. */
  push(item: E): void {
    const bucket = this.#bucket(item.priority);
    const lane = laneOf(bucket, item.group);
    let previous = lane.last;
    while (previous !== undefined && previous.order > item.order) previous = previous.previous;
    const next = previous === undefined ? lane.first : previous.next;
    item.lane = lane;
    item.previous = previous;
    item.next = next;
    if (previous === undefined) lane.first = item;
    else previous.next = item;
    if (next === undefined) lane.last = item;
    else next.previous = item;
    this.#size++;
  }

  remove(item: E): void {
    const { lane, previous, next } = item;
    if (lane === undefined) return;
    if (previous === undefined) lane.first = next;
    else previous.next = next;
    if (next === undefined) lane.last = previous;
    else next.previous = previous;
    item.lane = undefined;
    item.previous = undefined;
    item.next = undefined;
    this.#size--;
    // The only lane of a priority stays: a queue without a backlog fills and empties it repeatedly.
    if (lane.first === undefined && lane.next !== lane) lane.remove();
  }

  /** Removes and returns the first item of the group whose turn it is, of the highest priority. */
  shift(): E | undefined {
    for (let bucket = this.#heap.peek(); bucket !== undefined; bucket = this.#heap.peek()) {
      const lane = bucket.current;
      if (lane?.first !== undefined) {
        const { first } = lane;
        bucket.current = lane.next;
        this.remove(first);
        return first;
      }
      // Empty buckets stay until they are on top: most priorities are used again soon.
      this.#heap.pop();
      this.#buckets.delete(bucket.priority);
    }
    return undefined;
  }

  clear(): void {
    for (let item = this.shift(); item !== undefined; item = this.shift());
  }

  #bucket(priority: number): Bucket<E> {
    const top = this.#heap.peek();
    if (top?.priority === priority) return top;
    let bucket = this.#buckets.get(priority);
    if (bucket === undefined) {
      bucket = { priority, lanes: new Map(), current: undefined, heapIndex: -1 };
      this.#buckets.set(priority, bucket);
      this.#heap.push(bucket);
    }
    return bucket;
  }
}
