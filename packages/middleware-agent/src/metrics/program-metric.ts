/** One value of a metric of a program. */
export interface ProgramMetricSample {
  /** Labels of the program. The operator adds those of the Pod. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric of a program, under the name of its usual exporter. */
export interface ProgramMetric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge";
  readonly samples: readonly ProgramMetricSample[];
}
