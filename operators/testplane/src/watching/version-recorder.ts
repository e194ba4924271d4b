/** Maximum versions that are kept until they are read. The oldest are dropped first. */
const maxVersions = 100;

/**
 * Records the versions of objects for readers that must see each of them. A test that is woken reads the current state only: an object that changes
 * and changes back before that would look as if nothing had happened.
 */
export class VersionRecorder<T> {
  readonly #byName = new Map<string, Map<string, (T | undefined)[]>>();

  /** Adds a version of an object; undefined if it was deleted. */
  add(name: string, version: T | undefined): void {
    for (const versions of this.#byName.get(name)?.values() ?? []) {
      versions.push(version);
      if (versions.length > maxVersions) versions.shift();
    }
  }

  /** The versions since the last call of this reader for this object, oldest first. Records them from now on. */
  take(reader: string, name: string): readonly (T | undefined)[] {
    const readers = this.#byName.get(name) ?? new Map<string, (T | undefined)[]>();
    this.#byName.set(name, readers);
    const versions = readers.get(reader) ?? [];
    readers.set(reader, []);
    return versions;
  }

  /** Ends the recordings of a test. Names of its readers are `TEST:READER`. */
  forget(test: string): void {
    for (const [name, readers] of this.#byName) {
      for (const reader of readers.keys()) if (reader.startsWith(`${test}:`)) readers.delete(reader);
      if (readers.size === 0) this.#byName.delete(name);
    }
  }
}
