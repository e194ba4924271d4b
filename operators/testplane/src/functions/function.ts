/** An object as a function sees it: the whole of it, or `undefined` where there is none. */
export type Resource = Readonly<Record<string, unknown>> | undefined;

/** Parameters of a call, as the test gives them. */
export type Params = Readonly<Record<string, unknown>>;

/** What a check answers. */
export interface CheckResult {
  readonly passed: boolean;
  /** What was seen. */
  readonly actual?: string;
  /** Why it did not hold. */
  readonly message?: string;
  /** It cannot come to hold any more: waiting is of no use. */
  readonly isFinal?: boolean;
}

/** A parameter's kind. */
export interface Parameter {
  readonly type: "string" | "integer" | "boolean" | "any";
  readonly required?: boolean;
}

interface Named {
  readonly name: string;
  readonly params: Readonly<Record<string, Parameter>>;
}

/** A built-in function that checks an object. */
export interface CheckFunction extends Named {
  readonly check: (resource: Resource, params: Params) => CheckResult;
}

/** A built-in function that takes a value out of an object; `undefined` where it is not there. */
export interface ExtractorFunction extends Named {
  readonly extract: (resource: Resource, params: Params) => string | undefined;
}

/** A check that holds. */
export const pass = (actual?: string): CheckResult => ({ passed: true, ...(actual === undefined ? {} : { actual }) });

/** A check that does not hold (yet). */
export const fail = (message: string, actual?: string): CheckResult => ({
  passed: false,
  message,
  ...(actual === undefined ? {} : { actual }),
});

/** A check that will not hold any more. */
export const never = (message: string, actual?: string): CheckResult => ({ ...fail(message, actual), isFinal: true });
