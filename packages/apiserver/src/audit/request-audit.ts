/** What the endpoints and admission add to the audit record of a request. */
export interface RequestAudit {
  /** Adds an annotation. The first value of a key stays. */
  annotate(key: string, value: string): void;
  /** Records the parsed body, before anything changes it. `isPatch` bodies do not name an object. */
  receive(body: unknown, isPatch: boolean): void;
}
