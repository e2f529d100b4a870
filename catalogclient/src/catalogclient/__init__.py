"""Client of catalogs that speak the Apache Iceberg REST interface.

Start with RestCatalog. Every failure raises CatalogError or one of its subclasses. `types` has the request and response
documents, `changes`, `updates` and `requirements` build commits, `expressions` builds the filters of scans, `auth` adds
credentials to requests, and `credentials` selects credentials for storage. The names imported here are public.
"""

from catalogclient import auth as auth
from catalogclient import changes as changes
from catalogclient import credentials as credentials
from catalogclient import errors as errors
from catalogclient import expressions as expressions
from catalogclient import requirements as requirements
from catalogclient import types as types
from catalogclient import updates as updates
from catalogclient._async_client import AsyncRestCatalog as AsyncRestCatalog
from catalogclient._endpoints import Endpoint as Endpoint
from catalogclient._event_hooks import RequestHook as RequestHook
from catalogclient._event_hooks import RequestInfo as RequestInfo
from catalogclient._event_hooks import ResponseInfo as ResponseInfo
from catalogclient._event_hooks import RetryInfo as RetryInfo
from catalogclient._idempotency import generate_idempotency_key as generate_idempotency_key
from catalogclient._identifiers import NamespaceIdentifier as NamespaceIdentifier
from catalogclient._identifiers import NamespaceLike as NamespaceLike
from catalogclient._identifiers import TableIdentifier as TableIdentifier
from catalogclient._identifiers import TableLike as TableLike
from catalogclient._messages import UNSET as UNSET
from catalogclient._messages import RawResponse as RawResponse
from catalogclient._metadata import current_snapshot as current_snapshot
from catalogclient._metadata import current_snapshot_id as current_snapshot_id
from catalogclient._metadata import get_current_schema as get_current_schema
from catalogclient._metadata import ref as ref
from catalogclient._metadata import snapshot_by_id as snapshot_by_id
from catalogclient._options import AccessDelegation as AccessDelegation
from catalogclient._options import RestCatalogOptions as RestCatalogOptions
from catalogclient._options import RetryPolicy as RetryPolicy
from catalogclient._options import Snapshots as Snapshots
from catalogclient._options import Timeout as Timeout
from catalogclient._results import CatalogConfig as CatalogConfig
from catalogclient._results import CommitTableResult as CommitTableResult
from catalogclient._results import FunctionPage as FunctionPage
from catalogclient._results import LoadFunctionResult as LoadFunctionResult
from catalogclient._results import LoadTableResult as LoadTableResult
from catalogclient._results import LoadViewResult as LoadViewResult
from catalogclient._results import NamespaceMetadata as NamespaceMetadata
from catalogclient._results import NamespacePage as NamespacePage
from catalogclient._results import PlanResult as PlanResult
from catalogclient._results import RemoteSignResult as RemoteSignResult
from catalogclient._results import ScanTasks as ScanTasks
from catalogclient._results import SecretDict as SecretDict
from catalogclient._results import StorageCredential as StorageCredential
from catalogclient._results import TablePage as TablePage
from catalogclient._results import UnregisterTableResult as UnregisterTableResult
from catalogclient._results import UpdateNamespacePropertiesResult as UpdateNamespacePropertiesResult
from catalogclient._results import ViewPage as ViewPage
from catalogclient._scan import AsyncScanPlan as AsyncScanPlan
from catalogclient._scan import ScanPlan as ScanPlan
from catalogclient._sync_client import RestCatalog as RestCatalog
from catalogclient._type_strings import DecimalType as DecimalType
from catalogclient._type_strings import FixedType as FixedType
from catalogclient._type_strings import is_decimal_type as is_decimal_type
from catalogclient._type_strings import is_fixed_type as is_fixed_type
from catalogclient._type_strings import parse_decimal_type as parse_decimal_type
from catalogclient._type_strings import parse_fixed_type as parse_fixed_type
from catalogclient._type_strings import types_equal as types_equal
from catalogclient._version import __version__ as __version__
from catalogclient.auth import AuthManager as AuthManager
from catalogclient.auth import BasicAuth as BasicAuth
from catalogclient.auth import BearerAuth as BearerAuth
from catalogclient.auth import CustomAuth as CustomAuth
from catalogclient.auth import EntraAuth as EntraAuth
from catalogclient.auth import GoogleAuth as GoogleAuth
from catalogclient.auth import HeaderAuth as HeaderAuth
from catalogclient.auth import NoAuth as NoAuth
from catalogclient.auth import OAuth2ClientCredentials as OAuth2ClientCredentials
from catalogclient.auth import OAuth2TokenExchange as OAuth2TokenExchange
from catalogclient.auth import SigV4Auth as SigV4Auth
from catalogclient.credentials import effective_config as effective_config
from catalogclient.credentials import select_credential as select_credential
from catalogclient.errors import AlreadyExistsError as AlreadyExistsError
from catalogclient.errors import AuthenticationTimeoutError as AuthenticationTimeoutError
from catalogclient.errors import BadRequestError as BadRequestError
from catalogclient.errors import CatalogError as CatalogError
from catalogclient.errors import ClientClosedError as ClientClosedError
from catalogclient.errors import CommitFailedError as CommitFailedError
from catalogclient.errors import CommitStateUnknownError as CommitStateUnknownError
from catalogclient.errors import ConflictError as ConflictError
from catalogclient.errors import ConnectError as ConnectError
from catalogclient.errors import ForbiddenError as ForbiddenError
from catalogclient.errors import InsecureTransportWarning as InsecureTransportWarning
from catalogclient.errors import InvalidArgumentError as InvalidArgumentError
from catalogclient.errors import InvalidResponseError as InvalidResponseError
from catalogclient.errors import NamespaceNotEmptyError as NamespaceNotEmptyError
from catalogclient.errors import NetworkError as NetworkError
from catalogclient.errors import NoSuchFunctionError as NoSuchFunctionError
from catalogclient.errors import NoSuchNamespaceError as NoSuchNamespaceError
from catalogclient.errors import NoSuchPlanIdError as NoSuchPlanIdError
from catalogclient.errors import NoSuchPlanTaskError as NoSuchPlanTaskError
from catalogclient.errors import NoSuchTableError as NoSuchTableError
from catalogclient.errors import NoSuchViewError as NoSuchViewError
from catalogclient.errors import NoSuchWarehouseError as NoSuchWarehouseError
from catalogclient.errors import NotFoundError as NotFoundError
from catalogclient.errors import OAuthError as OAuthError
from catalogclient.errors import PlanCancelledError as PlanCancelledError
from catalogclient.errors import PlanFailedError as PlanFailedError
from catalogclient.errors import PlanTimeoutError as PlanTimeoutError
from catalogclient.errors import RequestTimeoutError as RequestTimeoutError
from catalogclient.errors import ResponseError as ResponseError
from catalogclient.errors import ScanPlanningError as ScanPlanningError
from catalogclient.errors import ServerError as ServerError
from catalogclient.errors import ServiceUnavailableError as ServiceUnavailableError
from catalogclient.errors import TlsError as TlsError
from catalogclient.errors import TooManyRequestsError as TooManyRequestsError
from catalogclient.errors import UnauthorizedError as UnauthorizedError
from catalogclient.errors import UnexpectedRedirectError as UnexpectedRedirectError
from catalogclient.errors import UnprocessableEntityError as UnprocessableEntityError
from catalogclient.errors import UnsupportedEndpointError as UnsupportedEndpointError
from catalogclient.errors import UnsupportedOperationError as UnsupportedOperationError

ICEBERG_REST_SPEC_TAG = "apache-iceberg-1.11.0"
"""Release whose OpenAPI document this version was checked against."""
ICEBERG_REST_SPEC_URL = (
    f"https://github.com/apache/iceberg/blob/{ICEBERG_REST_SPEC_TAG}/open-api/rest-catalog-open-api.yaml"
)
