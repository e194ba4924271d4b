/* Users of the cluster and their permissions, for servers that authenticate and authorize requests by the API server. */
export {
  type AccessAttributes,
  accessReviewRules,
  type AuthenticatedUser,
  ClusterIdentities,
} from "./access/cluster-identities.ts";
export { ReviewLimitError } from "./access/review-cache.ts";
