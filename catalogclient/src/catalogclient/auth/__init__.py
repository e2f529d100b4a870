"""Authentication managers, which add credentials to requests, and the mappings that configure them."""

from catalogclient._messages import PreparedRequest as PreparedRequest
from catalogclient.auth._base import AuthManager as AuthManager
from catalogclient.auth._base import TokenAuth as TokenAuth
from catalogclient.auth._cloud import EntraAuth as EntraAuth
from catalogclient.auth._cloud import GoogleAuth as GoogleAuth
from catalogclient.auth._config import AuthConfig as AuthConfig
from catalogclient.auth._oauth2 import OAuth2ClientCredentials as OAuth2ClientCredentials
from catalogclient.auth._oauth2 import OAuth2TokenExchange as OAuth2TokenExchange
from catalogclient.auth._oauth2 import TokenRequestOptions as TokenRequestOptions
from catalogclient.auth._sigv4 import SigV4Auth as SigV4Auth
from catalogclient.auth._static import BasicAuth as BasicAuth
from catalogclient.auth._static import BearerAuth as BearerAuth
from catalogclient.auth._static import CustomAuth as CustomAuth
from catalogclient.auth._static import HeaderAuth as HeaderAuth
from catalogclient.auth._static import NoAuth as NoAuth
