import type { WebhookMetrics, WebhookObservation } from "../admission/webhooks/webhook-metrics.ts";
import { Counter, escapeLabel, Histogram } from "./histogram.ts";

/** Upper bounds in seconds, as in kube-apiserver. */
const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25];

/** The metrics of admission webhooks under kube-apiserver's names. */
export class AdmissionWebhookMetrics implements WebhookMetrics {
  readonly #durations = new Histogram(
    "apiserver_admission_webhook_admission_duration_seconds",
    "Time to call an admission webhook.",
    buckets,
  );
  readonly #requests = new Counter("apiserver_admission_webhook_request_total", "Number of calls of admission webhooks.");
  readonly #rejections = new Counter(
    "apiserver_admission_webhook_rejection_count",
    "Number of requests that an admission webhook rejected, or that were rejected because it could not be called.",
  );
  readonly #failOpen = new Counter(
    "apiserver_admission_webhook_fail_open_count",
    "Number of failed calls that were ignored because of the failure policy.",
  );

  observe({ name, type, operation, durationMs, code, outcome }: WebhookObservation): void {
    const subject = `name="${escapeLabel(name)}"`;
    const rejected = outcome === "denied" || outcome === "failed-closed";
    const labels = `${subject},operation="${operation}",rejected="${rejected}",type="${type}"`;
    this.#durations.observe(labels, durationMs / 1000);
    // As in kube-apiserver, codes above 600 are counted together.
    const shown = code > 600 ? 600 : code;
    this.#requests.increment(`code="${shown}",${labels}`);
    if (outcome === "failed-open") this.#failOpen.increment(`${subject},type="${type}"`);
    if (!rejected) return;
    const errorType = outcome === "denied" ? "no_error" : "calling_webhook_error";
    this.#rejections.increment(
      `error_type="${errorType}",${subject},operation="${operation}",rejection_code="${shown}",type="${type}"`,
    );
  }

  *lines(): Generator<string> {
    for (const metric of [this.#durations, this.#requests, this.#rejections, this.#failOpen]) yield* metric.lines();
  }
}
