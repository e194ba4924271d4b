import type { Authorizer } from "../rbac/rbac-authorizer.ts";
import { createAccessReviews } from "./access-reviews.ts";
import type { Reviews } from "./review-kinds.ts";
import { createTokenReviews, type TokenReviewsOptions } from "./token-reviews.ts";

/** What {@link createReviews} takes. */
export interface ReviewsOptions extends TokenReviewsOptions {
  readonly authorizer: Pick<Authorizer, "authorize" | "rulesFor">;
}

/** Creates the {@link Reviews} of a server. */
export function createReviews(options: ReviewsOptions): Reviews {
  return { ...createAccessReviews(options.authorizer), ...createTokenReviews(options) };
}
