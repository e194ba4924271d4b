/** A parsed file of the tests to import. */
export interface SourceFile {
  /** Path relative to the directory of its test. */
  readonly name: string;
  readonly documents: readonly unknown[];
  /** Why the file could not be parsed. */
  readonly error?: string;
}

/** A test to convert: where it came from and the manifests that it may refer to. */
export interface TestSource {
  /** Path of the test's file or directory, for messages. */
  readonly path: string;
  /** The documents of a file next to the test; undefined if it cannot be read. **Errors**: a `ConversionError` if it is not valid YAML. */
  readonly read: (file: string) => readonly unknown[] | undefined;
}

/** A converted test. */
export interface ConvertedTest {
  readonly path: string;
  readonly test: Readonly<Record<string, unknown>>;
  /** What could not be converted. */
  readonly problems: readonly string[];
  /** Differences that do not change what the test shows. */
  readonly remarks: readonly string[];
}

/** Options of a conversion. */
export interface ConversionOptions {
  /** ServiceAccount with which the tests run in their own namespace. */
  readonly serviceAccount?: string;
}
