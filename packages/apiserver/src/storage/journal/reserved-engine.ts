import type { Batch, Engine, KeyValue, LogRecord, PinnedEngineState, Position } from "../database/engine.ts";
import type { SpaceReserve } from "../database/space-reserve.ts";
import { isStorageError, storageFull } from "../storage-error.ts";

/**
 * An {@link Engine} with a reserve of disk space. When the disk is full, commits that free space may use the reserve. Others are rejected
 * until there is enough space to restore it.
 */
export class ReservedEngine implements Engine {
  readonly #engine: Engine;
  readonly #reserve: SpaceReserve;

  constructor(engine: Engine, reserve: SpaceReserve) {
    this.#engine = engine;
    this.#reserve = reserve;
  }

  get position(): Position {
    return this.#engine.position;
  }

  get(key: string): Uint8Array | undefined {
    return this.#engine.get(key);
  }

  has(key: string): boolean {
    return this.#engine.has(key);
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#engine.range(start, end);
  }

  borrow(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#engine.borrow(start, end);
  }

  count(start: string, end: string | undefined): Iterable<number> {
    return this.#engine.count(start, end);
  }

  log(after: number, newestFirst?: boolean, before?: number): Iterable<LogRecord> {
    return this.#engine.log(after, newestFirst, before);
  }

  pin(): PinnedEngineState {
    return this.#engine.pin();
  }

  async commit(batch: Batch): Promise<void> {
    const isFreeing = batch.isFreeing === true;
    if (!this.#reserve.isHeld && !isFreeing && !this.#reserve.restore()) {
      throw storageFull(new Error("the space reserved for deletes is in use"));
    }
    try {
      await this.#engine.commit(batch);
    } catch (error) {
      if (!isFreeing || !this.#reserve.isHeld || !isStorageError(error, "StorageFull")) throw error;
      this.#reserve.release();
      await this.#engine.commit(batch);
    }
  }

  async close(): Promise<void> {
    await this.#engine.close();
    this.#reserve.close();
  }
}
